"""What makes an agent ask admission before each tool call: a hook of its own, for one run, in none of the user's files.

The hook is `orchconverge.hook` (``Brief.hook``), for opencode the plugin below. It has address and token from the environment
of the agent, which hands it on. What each makes of a hook that ends with a fault, or that takes longer than `TIMEOUT_SECONDS`:

- claude 2.1.197 and codex 0.171.0: exit code 2 refuses, another one, a signal, garbage or too long a time allows.
- gemini 0.61.0: 2 and more refuse; 1, a signal and garbage allow, too long a time as soon as all that the hook started is gone.
- opencode 1.18.33: what the plugin throws refuses; it has no time but the plugin's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from orchconverge.adapters.engines.reading import lines, part, record
from orchconverge.errors import Refused
from orchconverge.files import own_folder, write_own
from orchconverge.ports import Brief

TIMEOUT_SECONDS = 5
"""After which an agent gives up on the hook, which itself gives up after one."""
CODEX_SECONDS = 10.0
"""For codex to say what our hook is to it; it takes 0.2."""
VARIABLES = ("ORCHCONVERGE_ADMISSION", "ORCHCONVERGE_ADMISSION_TOKEN")

GEMINI_HOME = ".gemini-home"
"""Beside the folders of minds, and no name of one."""
_NOT_LINKED = frozenset({"settings.json", "projects.json", "tmp", "history"})
"""What gemini keeps of its own below its home; the rest is the user's: sign-in, extensions, memory, policies."""

PLUGIN = "opencode-gate.js"
PLUGIN_TEXT = """\
import { connect } from "node:net"

const TOOLS = {
  read: ["read", "filePath"], list: ["search", "path"], glob: ["search", "pattern"], grep: ["search", "pattern"],
  write: ["write", "filePath"], edit: ["write", "filePath"], multiedit: ["write", "filePath"],
  bash: ["shell", "command"], apply_patch: ["shell", "patchText"],
}
const PARTS = { read: ["offset", "limit"], search: ["path", "include"] }

const asked = (question) => new Promise((resolve) => {
  const gate = connect(process.env.ORCHCONVERGE_ADMISSION)
  let said = ""
  gate.on("connect", () => gate.write(JSON.stringify(question) + "\\n"))
  gate.on("data", (data) => { said += data })
  gate.on("error", () => {})
  gate.on("close", () => resolve(said))
  setTimeout(() => gate.destroy(), 1000).unref()
})

export const Gate = async () => ({
  "tool.execute.before": async ({ tool, callID }, { args }) => {
    const [kind, key] = TOOLS[tool] ?? ["other", ""]
    const text = (name) => String(args?.[name] ?? "").toWellFormed()
    const patch = text(key).includes("*** Begin Patch")
    const target = (patch ? text(key).split("\\n").filter((line) => line.startsWith("*** ")).join("\\n") : text(key)).slice(0, 8000)
    const part = (PARTS[kind] ?? []).filter((name) => name !== key).map(text).join(" ").trim().slice(0, 600)
    const token = process.env.ORCHCONVERGE_ADMISSION_TOKEN ?? ""
    let answer = {}
    try { answer = JSON.parse(await asked({ token, id: callID, tool, kind, target, part })) } catch {}
    if (typeof answer.allow !== "boolean") console.error("orchconverge: admission did not answer: allowed")
    if (answer.allow === false) throw new Error(answer.reason || "admission refused it")
  },
})
"""


def command(brief: Brief, agent: str) -> str:
    """The line that an agent gives to its shell for each call. It never fails: 2 would refuse, as Python's for a missing file."""
    return f"{shlex.join((*brief.hook, agent))} || true"


def claude_settings(brief: Brief) -> str:
    """Settings for claude's ``--settings``, which come beside those of the user's files."""
    hook = {"type": "command", "command": command(brief, "claude"), "timeout": TIMEOUT_SECONDS}
    return json.dumps({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}})


def codex_words(brief: Brief, program: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Words for codex that set the hook and say that this one, by its hash, was looked at; none if codex does not tell it.

    An untrusted hook is skipped in silence, and trusting all of them would run those of the repository.
    """
    line = json.dumps(command(brief, "codex"), ensure_ascii=False).replace("\x7f", "\\u007f")
    hook = f'hooks.PreToolUse=[{{matcher="*",hooks=[{{type="command",command={line},timeout={TIMEOUT_SECONDS}}}]}}]'
    try:
        changed = Path(program).stat().st_mtime_ns
    except OSError:
        return ()
    trusted = _codex_trusts(program, changed, hook, environ.get("PATH", os.defpath))
    return ("-c", hook, "-c", trusted) if trusted else ()


@lru_cache(maxsize=16)
def _codex_trusts(program: str, _changed: int, hook: str, path: str) -> str:
    """The setting by which codex trusts a hook that it is given by its command line; asked once, of a codex without a home."""
    requests: tuple[dict[str, object], ...] = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "orchconverge", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": ["/"]}},
    )
    quiet = "features.plugins=false"  # with them it goes to the network
    argv = [program, "-c", hook, "-c", quiet, "app-server"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, contextlib.suppress(OSError):
        env = {"PATH": path, "HOME": home, "CODEX_HOME": home}
        server = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=home,
            start_new_session=True,
        )
        with server:
            try:
                assert server.stdin is not None
                assert server.stdout is not None
                server.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in requests))
                server.stdin.flush()
                listed = _answered(server.stdout.fileno(), 2)
            finally:
                os.killpg(server.pid, signal.SIGKILL)
        hooks = part(listed, "result", "data")
        ours = part(hooks[0], "hooks") if isinstance(hooks, list) and hooks else None
        for each in ours if isinstance(ours, list) else []:
            key, digest = part(each, "key"), part(each, "currentHash")
            if part(each, "source") == "sessionFlags" and isinstance(key, str) and isinstance(digest, str):
                return f"hooks.state={{{json.dumps(key)}={{trusted_hash={json.dumps(digest)}}}}}"
    return ""


def _answered(handle: int, number: int) -> object:
    """The answer to a request of this number, ``None`` if there is none in time."""
    held, until = b"", time.monotonic() + CODEX_SECONDS
    while (left := until - time.monotonic()) > 0 and select.select([handle], [], [], left)[0]:
        more = os.read(handle, 1 << 16)
        if not more:
            return None
        held += more
        found = (record(line) for line in lines(held))
        answer = next((each for each in found if part(each, "id") == number), None)
        if answer is not None:
            return answer
    return None


def gemini_home(brief: Brief, environ: Mapping[str, str]) -> Path | None:
    """A home for gemini (``GEMINI_CLI_HOME``) that is the user's but for the hook in its settings; ``None`` if there is no such.

    Gemini reads hooks from settings files alone. Those of the project are the repository's, those of the system must belong
    to root; so a copy of the user's is made, and all else in it is a link. Sessions of minds stay in it.
    """
    base = Path(environ.get("GEMINI_CLI_HOME") or environ.get("HOME", ""))
    home = brief.folder.parent / GEMINI_HOME
    if not base.is_absolute():
        return None
    try:
        settings = _with_hook(base / ".gemini" / "settings.json", command(brief, "gemini"))
        if settings is None:
            return None
        own_folder(home)
        own_folder(home / ".gemini")
        _link(base, home, (".env", ".agents"))
        _link(base / ".gemini", home / ".gemini", ())
        write_own(home / ".gemini" / "settings.json", settings.encode())
    except (OSError, Refused):
        return None
    return home


def _with_hook(path: Path, line: str) -> str | None:
    """The user's settings with one hook more; ``None`` if they cannot be read as JSON, or say that there are no hooks."""
    try:
        settings = record(path.read_bytes().strip())
    except FileNotFoundError:
        settings = {}
    if settings is None or part(settings, "hooksConfig", "enabled") is False:
        return None
    # Gemini can be set to keep variables from hooks; it puts their values into its settings before that.
    env = {name: f"${name}" for name in VARIABLES}
    hook = {"type": "command", "command": line, "timeout": TIMEOUT_SECONDS * 1000, "env": env}
    hooks = settings.get("hooks")
    before = part(hooks, "BeforeTool")
    settings["hooks"] = {
        **(hooks if isinstance(hooks, dict) else {}),
        "BeforeTool": [*(before if isinstance(before, list) else []), {"matcher": "*", "hooks": [hook]}],
    }
    return json.dumps(settings)


def _link(base: Path, home: Path, names: tuple[str, ...]) -> None:
    """Link what is in ``base``, or these ``names`` of it, where nothing is."""
    if not base.is_dir():
        return
    for each in [base / name for name in names] or base.iterdir():
        link = home / each.name
        if each.name not in _NOT_LINKED and each.exists() and not os.path.lexists(link):
            with contextlib.suppress(FileExistsError):  # another mind was faster
                link.symlink_to(each)
