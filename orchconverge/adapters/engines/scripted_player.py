"""Plays one mind of a script, in the current directory: the program behind the engine ``scripted``.

    python -I -S scripted_player.py --script=FILE [--branch=B] [--attempt=N] [--approach=A] [--judge=CRITERION]

FILE is ``{"minds": […], "commits": true}``. With false none of them can commit, as in a sandbox, which it says first. A
mind is ``{"match": {"branch": …, "approach": …, "attempt": N or [N, …]}, "acts": [ACT, …]}``. The first
mind whose ``match`` fits is played, and one without ``match`` fits always. A judge is one whose ``match`` names the
criterion that it answers as ``"judge"``: it fits nothing else, and nothing else fits there. An ACT is one of

    {"write": {"path": P, "text": T}}   a file, its folders made; paths stay inside the current directory
    {"delete": P}                       a file; one that is not there is said, and no error
    {"commit": MESSAGE}                 `git add -A && git commit`; nothing to commit is said, and no error
    {"say": TEXT}                       a line of output
    {"report": {…} or TEXT}             what is left in the file that ORCHCONVERGE_REPORT names, as JSON or as it is
    {"usage": {"inputTokens": N, …}}    what was used, in the ledger's names, with ``usd`` for dollars
    {"ratelimit": {"reset": WHEN}}      the quota is used up until WHEN: seconds since 1970, ISO 8601, "+SECONDS" or null
    {"sleep": SECONDS}
    {"hang": true}                      until a signal ends it
    {"exit": CODE}

It ends with 0 after the last act; with 64 and one line for a script that cannot be played, nothing having been done; with
65 for a path that leads outside; with 1 for what the system or git would not do. Standard library only: it imports
nothing of ours, and is started without site-packages.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

UNPLAYABLE, OUTSIDE, UNDONE = 64, 65, 1
TOLD = ("--script", "--branch", "--attempt", "--approach", "--judge")


class Stop(Exception):
    """The play is over."""

    def __init__(self, code: int, line: str = "") -> None:
        super().__init__(line)
        self.code, self.line = code, line


def check(good: bool, line: str) -> None:
    """Raise the end of a script that cannot be played unless ``good``."""
    if not good:
        raise Stop(UNPLAYABLE, f"bad script: {line}")


def is_text(value: object) -> bool:
    """Say whether it is text that can be written."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def is_argument(value: object) -> bool:
    """Say whether it is text that can be a path or an argument."""
    return isinstance(value, str) and is_text(value) and "\0" not in value


def is_number(value: object) -> bool:
    """Say whether it is a number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def is_when(value: object) -> bool:
    """Say whether it can be the ``reset`` of a limit."""
    if isinstance(value, str) and value.startswith("+"):
        return value[1:].replace(".", "", 1).isdecimal()
    return value is None or is_text(value) or is_number(value)


SHAPES: dict[str, Callable[[Any], bool]] = {
    "write": lambda v: (
        isinstance(v, dict) and set(v) == {"path", "text"} and is_argument(v["path"]) and is_text(v["text"])
    ),
    "delete": is_argument,
    "commit": lambda v: is_argument(v) and bool(v.strip()),
    "say": is_text,
    "report": lambda v: isinstance(v, dict) or is_text(v),
    "usage": lambda v: isinstance(v, dict),
    "ratelimit": lambda v: isinstance(v, dict) and set(v) <= {"reset"} and is_when(v.get("reset")),
    "sleep": is_number,
    "hang": lambda v: v is True,
    "exit": lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= 255,
}


def load(path: str) -> tuple[list[dict[str, Any]], bool]:
    """The script's minds, every act of every one checked, and whether they can commit."""
    try:
        script = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Stop(UNPLAYABLE, f"bad script: {path}: {error}") from None
    minds = script.get("minds") if isinstance(script, dict) else None
    if not isinstance(minds, list):
        raise Stop(UNPLAYABLE, 'bad script: it is not {"minds": […]}')
    for number, mind in enumerate(minds, 1):
        known = isinstance(mind, dict) and set(mind) <= {"match", "acts"} and isinstance(mind.get("acts"), list)
        check(known, f'mind {number} is not {{"match": …, "acts": […]}}')
        match = mind.setdefault("match", {})
        known = isinstance(match, dict) and set(match) <= {"branch", "approach", "attempt", "judge"}
        check(known, f"mind {number} can match branch, approach, attempt and judge")
        for act in mind["acts"]:
            known = isinstance(act, dict) and len(act) == 1 and next(iter(act)) in SHAPES
            check(known, f"mind {number} has an act that is none of {', '.join(SHAPES)}: {json.dumps(act)[:200]}")
            name, value = next(iter(act.items()))
            check(SHAPES[name](value), f"mind {number} has a malformed {name}: {json.dumps(value)[:200]}")
    commits = script.get("commits", True)
    check(isinstance(commits, bool), "commits is true or false")
    return minds, commits


def fits(match: dict[str, Any], told: dict[str, str]) -> bool:
    """Say whether all that ``match`` names is so; a judge's is for judges alone."""
    if ("judge" in match) != ("--judge" in told):
        return False
    for name, wanted in match.items():
        among = wanted if isinstance(wanted, list) else [wanted]
        if told.get(f"--{name}", "") not in map(str, among):
            return False
    return True


def inside(path: str, *, follow: bool) -> Path:
    """The path, if neither words nor links lead out of the current directory; ``follow``: its last part's link too."""
    here, found = Path.cwd().resolve(), Path(path)
    try:
        within = (found if follow else found.parent).resolve().is_relative_to(here)
    except (OSError, RuntimeError):  # a loop of links
        within = False
    if not within or found.is_absolute() or ".." in found.parts or not found.parts:
        raise Stop(OUTSIDE, f"{path!r} is not inside {here}")
    return found


def say(line: str) -> None:
    """A line of output, at once."""
    print(line, flush=True)


def write(value: dict[str, str]) -> None:
    """Write a file."""
    path = inside(value["path"], follow=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value["text"], encoding="utf-8", newline="")


def delete(path: str) -> None:
    """Delete a file."""
    try:
        inside(path, follow=False).unlink()
    except FileNotFoundError:
        say(f"nothing to delete at {path}")


def git(*words: str) -> int:
    """Run git as any mind would: with the environment, the configuration and the hooks there are."""
    try:
        return subprocess.run(["git", *words], stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        raise Stop(UNDONE, f"git: {error}") from None


def commit(message: str) -> None:
    """Commit all there is."""
    code = git("add", "-A")
    if code == 0 and git("diff", "--cached", "--quiet") == 0:
        return say("nothing to commit")
    if code != 0 or git("commit", "-q", "-m", message) != 0:
        raise Stop(UNDONE, "the commit failed")
    return None


def report(value: object) -> None:
    """Leave the mind's own word."""
    path = os.environ.get("ORCHCONVERGE_REPORT")
    if not path:
        raise Stop(UNDONE, "ORCHCONVERGE_REPORT is not set")
    Path(path).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8", newline="")


def usage(value: dict[str, Any]) -> None:
    """Say what was used."""
    say(json.dumps({"type": "usage", **value}))


def ratelimit(value: dict[str, Any]) -> None:
    """Say that the quota is used up."""
    reset = value.get("reset")
    if isinstance(reset, str) and reset.startswith("+"):
        reset = time.time() + float(reset[1:])
    say(json.dumps({"type": "ratelimit", "reset": reset}))


def hang(_: object) -> NoReturn:
    """Wait for a signal, for ever."""
    while True:
        signal.pause()


def leave(code: int) -> NoReturn:
    """End now."""
    raise Stop(code)


ACTS: dict[str, Callable[[Any], None]] = {
    "write": write,
    "delete": delete,
    "commit": commit,
    "say": say,
    "report": report,
    "usage": usage,
    "ratelimit": ratelimit,
    "sleep": time.sleep,
    "hang": hang,
    "exit": leave,
}


def play(argv: list[str]) -> None:
    """Find the mind that fits and do what it does."""
    told = dict(word.partition("=")[::2] for word in argv)
    check(set(told) <= set(TOLD) and "--script" in told, f"it is started with {', '.join(f'{t}=' for t in TOLD)}")
    minds, commits = load(told["--script"])
    mind = next((mind for mind in minds if fits(mind["match"], told)), None)
    if mind is None:
        raise Stop(UNPLAYABLE, f"bad script: no mind of {told.pop('--script')} fits {json.dumps(told)}")
    if not commits:
        say(json.dumps({"type": "commits", "value": False}))
    for act in mind["acts"]:
        for name, value in act.items():
            if name == "commit" and not commits:
                say("fatal: Unable to create index.lock: Read-only file system")
                continue
            try:
                ACTS[name](value)
            except (OSError, ValueError) as error:
                raise Stop(UNDONE, f"{name}: {error}") from None


def main() -> int:
    """Play, and give the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        play(sys.argv[1:])
    except Stop as stop:
        if stop.line:
            print(" ".join(stop.line.split()), file=sys.stderr, flush=True)
        return stop.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
