"""The shell blocks of the documentation: what they type, what has to come of it, and a shell that runs them one by one.

In a block ```` ```sh ```` every line is typed. In ```` ```console ```` lines that begin with ``$ `` are typed (``> `` goes on), the
others are what has to be printed; ``…`` stands for anything, alone on a line for any number of lines. A line that ends with
``# exit code N`` has to leave with N, every other one with 0.
"""

from __future__ import annotations

import re
import select
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^ {0,3}(`{3,})\s*([\w-]*)[^`]*$")
CODE = re.compile(r"\s+# exit code (\d+)\b.*$")
SHELLS = ("sh", "console")
SECONDS = 120.0
"""What one command may take."""


@dataclass(frozen=True)
class Block:
    """What stands between two fences. ``line`` is that of the first one."""

    line: int
    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One command as a person types it. ``printed`` is ``None`` where the page does not show what comes."""

    line: int
    command: str
    code: int
    printed: tuple[str, ...] | None


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a page, in order."""
    fence, language, began, inside = "", "", 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if not fence and found:
            fence, language, began, inside = found[1], found[2], number, []
        elif fence and found and found[1].startswith(fence) and not found[2]:
            yield Block(began, language, tuple(inside))
            fence = ""
        elif fence:
            inside.append(line)
    assert not fence, f"the block of line {began} does not end"


def steps(text: str) -> Iterator[Step]:
    """Every command of the page's shell blocks, in order."""
    for block in blocks(text):
        if block.language == "sh":
            yield from _typed(block)
        elif block.language == "console":
            yield from _shown(block)


def matches(wanted: Iterable[str], printed: str) -> bool:
    """Whether it was printed. Blanks at the ends of lines, and blank lines at the end, do not count."""
    pattern = "".join(r"(?:.*\n)*" if line.strip() == "…" else _line(line) for line in wanted)
    said = "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())
    return re.fullmatch(pattern, said) is not None


def _line(line: str) -> str:
    return ".*".join(map(re.escape, line.rstrip().split("…"))) + r"\n"


def _typed(block: Block) -> Iterator[Step]:
    whole: list[str] = []
    for number, line in enumerate(block.lines, block.line + 1):
        if not whole and (not line.strip() or line.lstrip().startswith("#")):
            continue
        whole.append(line)
        if _complete("\n".join(whole)):
            yield _step(number - len(whole) + 1, whole, None)
            whole = []
    assert not whole, f"the command of line {block.line + len(block.lines)} does not end"


def _shown(block: Block) -> Iterator[Step]:
    command, printed, began = list[str](), list[str](), 0
    for number, line in enumerate([*block.lines, "$ "], block.line + 1):
        if line.startswith("$ "):
            if command:
                yield _step(began, command, printed)
            command, printed, began = [line[2:]], [], number
        elif line.startswith("> ") and command and not printed:
            command.append(line[2:])
        else:
            assert command, f"line {number} is printed by nothing"
            printed.append(line)


def _step(line: int, command: list[str], printed: list[str] | None) -> Step:
    while printed and not printed[-1].strip():
        printed.pop()
    found = CODE.search(command[-1])
    last = command[-1][: found.start()] if found else command[-1]
    code = int(found[1]) if found else 0
    return Step(line, "\n".join([*command[:-1], last]), code, None if printed is None else tuple(printed))


def _complete(text: str) -> bool:
    """Whether a shell would run it now instead of asking for more."""
    if text.endswith("\\"):
        return False
    ran = subprocess.run(["bash", "-n"], input=text + "\n", capture_output=True, text=True)
    return ran.returncode == 0 and not ran.stderr


class Shell:
    """One shell, as a person has it before them: what a command changes (directory, variables) is there for the next."""

    def __init__(self, cwd: Path, env: Mapping[str, str], scratch: Path) -> None:
        self._scratch = scratch
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Type it: its exit code, and all that it printed."""
        said, typed = self._scratch / "said", self._scratch / "typed"
        typed.write_text(command + "\n")
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f". {shlex.quote(str(typed))} >{shlex.quote(str(said))} 2>&1 </dev/null; echo $?\n")
        # A shell says one line for each command, so none is left in the buffer.
        assert select.select([self._bash.stdout], [], [], SECONDS)[0], f"not over in {SECONDS:.0f} s: {command}"
        answer = self._bash.stdout.readline()
        assert answer.strip().isdigit(), f"the shell ended in: {command}"
        return int(answer), said.read_text(errors="replace")

    def close(self) -> None:
        """Leave it, as by Control + D."""
        try:
            self._bash.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._bash.kill()
            self._bash.communicate()
