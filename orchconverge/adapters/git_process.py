"""Starts git: the one place that decides its flags, environment and deadline, and names its failures."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused

GRACE_SECONDS = 5.0
"""Between TERM and KILL: a git that is killed leaves its lock files behind, one that is asked removes them."""
PROTOCOLS = "file:https:ssh"
"""Plain http would show tokens to the network. `Repository.push` adds it for loopback alone (tests, local forges)."""

FLAGS = tuple(
    part
    for setting in (
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.pager=cat",
        "core.quotePath=false",
        "core.safecrlf=false",
        "commit.gpgSign=false",
        "gc.auto=0",
        "i18n.commitEncoding=UTF-8",
        "log.showSignature=false",
        "merge.ff=true",
        "merge.verifySignatures=false",
        "protocol.ext.allow=never",
        "rerere.enabled=false",
        "submodule.recurse=false",
    )
    for part in ("-c", setting)
)
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "GIT_ALLOW_PROTOCOL": PROTOCOLS,
    "GIT_ASKPASS": "true",
    "GIT_EDITOR": "true",
    "GIT_NO_REPLACE_OBJECTS": "1",  # a planted replace ref would show us other commits than those that are pushed
    "GIT_OPTIONAL_LOCKS": "0",  # writes take the locks they need all the same
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
}
WELCOME = re.compile(
    r"GIT_(?:(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL)|SSH\w*|SSL_\w+|HTTP_\w+|PROXY_\w+|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)"
    r"|EXEC_PATH|PYTHON_\w+)"
)
LOCK_FILE = re.compile(r"Unable to create '(?P<path>.+\.lock)': File exists")
FULL_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
SLOW_SECONDS = 600.0
"""For what reads, writes or sends whole trees: filters, big files and slow disks are no fault."""
USERINFO = re.compile(r"(https?://)[^/@\s]+@")


class Result(Struct, frozen=True):
    """How git ended: exit code (negative: a signal), raw output, and its messages without credentials."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """The output as one name: without the newline that ends it."""
        return os.fsdecode(self.out.removesuffix(b"\n"))

    @property
    def reason(self) -> str:
        """Git's last word that is not advice."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip() and not line.startswith("hint:")]
        strong = [line for line in lines if line.startswith(("fatal:", "error:"))]
        return (strong or lines or [f"it ended with {self.code}"])[-1]

    def failure(self, command: str) -> Failed:
        """What to raise when this is not what was asked for."""
        lock = LOCK_FILE.search(self.err)
        hint = f"if no other git is running here, one was killed: delete {lock['path']}" if lock else ""
        return Failed(f"git {command}: {self.reason}", hint=hint)


class Run(Protocol):
    """`Repository.run`, as those that it is lent to see it."""

    def __call__(
        self,
        args: Sequence[str],
        *,
        cwd: Path | None = None,
        stdin: bytes | None = None,
        deadline_seconds: float = 60.0,
        env: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> Result:
        """Run one git command, in the repository's root if nothing else is said. Raises `Failed`."""


def run_git(
    args: Sequence[str], *, cwd: Path, stdin: bytes | None, deadline_seconds: float, env: Mapping[str, str]
) -> Result:
    """Run git in ``cwd``. At the deadline TERM, then KILL, to git and its helpers. Raises `Failed` if it did not end."""
    # Imported late: GitPython runs `git version` when it is imported, and raises ImportError where there is no git.
    try:
        from git.cmd import Git as GitPython
        from git.exc import GitCommandNotFound
    except ImportError as error:
        raise Refused("git does not run here", hint="install git 2.38 or newer") from error
    ours = {**ENVIRONMENT, **env}
    # GitPython's `env` can only add. Bootstrap cleans os.environ; whoever did not go through it is cleaned here.
    strays = [
        name for name in os.environ if name.startswith("GIT_") and name not in ours and not WELCOME.fullmatch(name)
    ]
    unset = ["env", *(part for name in sorted(strays) for part in ("-u", name))] if strays else []
    # -C, as GitPython silently takes its own directory for one that it cannot enter.
    command = [*unset, "git", *FLAGS, "-C", str(cwd), *args]
    # Only the process is GitPython's. Its own reading is left out: it decodes, strips, reads on threads, and at a
    # time-out goes straight to KILL.
    try:
        handle = GitPython().execute(
            command,
            istream=None if stdin is None else subprocess.PIPE,
            as_process=True,
            env=ours,
            start_new_session=True,  # no terminal to prompt on, no Ctrl-C in the middle of a write, one group to end
        )
    except (GitCommandNotFound, OSError) as error:
        raise Failed(f"git {args[0]} could not be started: {error}") from error
    process = handle.proc
    assert process is not None
    try:
        out, err = process.communicate(stdin, timeout=deadline_seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        raise Failed(
            f"git {args[0]} did not end within {deadline_seconds:g} seconds and was stopped",
            hint=f"run `git {args[0]}` in {cwd} by hand: a filter, a network or a lock may be holding it",
        ) from None
    except BaseException:
        _end(process)
        raise
    return Result(process.returncode, out, USERINFO.sub(r"\1***@", err.decode("utf-8", "replace")))


def _end(process: subprocess.Popen[bytes]) -> None:
    for sent, wait_seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 1.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        # A helper that left the group may hold the pipes open: then waiting for their end is bounded too.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=wait_seconds)
            return


def full_id(sha: Sha) -> Sha:
    """Full ids only: a short one may become ambiguous, a name may move, and either could be taken for an option."""
    if not FULL_ID.fullmatch(sha):
        raise Refused(f"{sha!r} is not a full commit id")
    return sha


def branch_ref(branch: str) -> str:
    """The full ref of a branch; what else makes a bad name, git says itself."""
    if not branch or branch.startswith("-") or branch == "HEAD" or re.search(r"[\s:\x00-\x1f\x7f]", branch):
        raise Refused(f"{branch!r} cannot be the name of a branch")
    return f"refs/heads/{branch}"
