"""The remotes of a repository: which may be talked to, what they call their HEAD, and the one way to push and to fetch."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from orchconverge.adapters.git_process import PROTOCOLS, SLOW_SECONDS, Run, branch_ref, full_id
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused

ALLOWED_URL = re.compile(r"(?:https|ssh|file)://|[^:]*/|(?!-)[^:/]+:(?!:|//)|[^:]+$")
PULLS = "refs/orchconverge/pulls/"
"""Where the commits of other people's pull requests are kept."""
LOOPBACK_URL = re.compile(r"http://(?:[^/@\s]+@)?(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/]|$)")


class Remotes:
    """Asks remotes, pushes to them and fetches from them; ``resolve`` answers for local refs."""

    def __init__(self, run: Run, resolve: Callable[[str], Sha | None]) -> None:
        self._run = run
        self._resolve = resolve
        self._default_branches: dict[str, str | None] = {}

    def default_branch(self, remote: str) -> str | None:
        """What ``remote`` calls its HEAD, as recorded here or asked for once; else main or master if they exist."""
        if remote not in self._default_branches:
            self._default_branches[remote] = self._find_default(remote)
        return self._default_branches[remote]

    def _find_default(self, remote: str) -> str | None:
        prefix = f"refs/remotes/{remote}/"
        recorded = self._run(["symbolic-ref", "--quiet", "--end-of-options", f"{prefix}HEAD"], check=False)
        if recorded.code == 0 and recorded.text.startswith(prefix):
            return recorded.text.removeprefix(prefix)
        if remote in self.urls():
            asked = ["ls-remote", "--symref", "--end-of-options", remote, "HEAD"]
            try:
                answer = self._run(asked, deadline_seconds=10.0, check=False).out
            except Failed:  # no answer in time: as good as offline
                answer = b""
            told = re.search(rb"^ref: refs/heads/(.+)\tHEAD$", answer, re.MULTILINE)
            if told:
                return os.fsdecode(told[1])
        return next((name for name in ("main", "master") if self._resolve(f"refs/heads/{name}")), None)

    def urls(self) -> Mapping[str, str]:
        """Remote name -> push URL, as `git push` would use it. It may hold a password: never log it as it is."""
        names = self._run(["config", "-z", "--name-only", "--get-regexp", r"^remote\..*\.(url|pushurl)$"], check=False)
        found: dict[str, str] = {}
        for key in os.fsdecode(names.out).split("\0"):
            name = key.removeprefix("remote.").rpartition(".")[0]
            if name and name not in found and not name.startswith("-"):
                url = self._run(["remote", "get-url", "--push", "--end-of-options", name], check=False)
                if url.code == 0:
                    found[name] = url.text
        return found

    def push(self, remote: str, sha: Sha, branch: str, *, over: Sha | None = None) -> tuple[bool, str]:
        """Push one commit to one branch. Returns whether it is there, and git's own word. Raises `Refused`.

        By force only if a person wants ``over`` replaced, and only where the branch still stands exactly there.
        """
        env = self._transport(remote, self.urls().get(remote))
        # Each of these can be turned on by a setting, and would send more than this one commit or run something.
        lease = f"--force-with-lease={branch_ref(branch)}:{full_id(over)}" if over else "--no-force-with-lease"
        off = ["--no-follow-tags", "--no-signed", "--no-verify", lease, "--recurse-submodules=no"]
        args = ["push", "--porcelain", *off, "--end-of-options", remote, f"{full_id(sha)}:{branch_ref(branch)}"]
        pushed = self._run(args, env=env, check=False, deadline_seconds=SLOW_SECONDS)
        lines = [line.split("\t") for line in os.fsdecode(pushed.out).splitlines() if line.count("\t") == 2]
        refused = [summary for flag, _, summary in lines if flag == "!"]
        if pushed.code:
            return False, refused[0] if refused else pushed.reason
        return True, lines[0][2] if lines else ""

    def fetch(self, remote: str, ref: str, name: str) -> Sha:
        """Bring what a full ``ref`` of a remote stands at to a private ref, and nothing else. Raises `Refused` and `Failed`."""
        if not ref.startswith("refs/"):
            raise Refused(f"{ref!r} is no full ref")
        url = self._run(["remote", "get-url", "--end-of-options", remote], check=False)
        env = self._transport(remote, url.text if url.code == 0 else None)
        to = f"{PULLS}{name}"
        # Without these it would move refs of the remote, bring tags along, write FETCH_HEAD, or go on into submodules.
        off = ["--refmap=", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance"]
        off += ["--no-prune", "--no-prune-tags", "--upload-pack=git-upload-pack"]
        args = ["fetch", "--quiet", *off, "--end-of-options", remote, f"+{ref}:{to}"]
        self._run(args, env=env, deadline_seconds=SLOW_SECONDS)
        found = self._resolve(to)
        if found is None:
            raise Failed(f"git fetch: {ref} of {remote} is no commit")
        return found

    def _transport(self, remote: str, url: str | None) -> Mapping[str, str]:
        """The variables with which a remote's URL may be talked to. Raises `Refused`."""
        if url is None:
            raise Refused(f"there is no remote {remote}", hint="`git remote -v` lists them")
        loopback = LOOPBACK_URL.match(url) is not None
        if not loopback and not ALLOWED_URL.match(url):
            raise Refused(f"remote {remote} uses a transport that is not allowed", hint="use https, ssh or a path")
        return {"GIT_ALLOW_PROTOCOL": f"{PROTOCOLS}:http"} if loopback else {}
