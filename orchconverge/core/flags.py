"""What in a candidate must be looked at by a person: changes to what judges it, or to what commands the next agent."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol

from orchconverge.core.target import RUN_BY_US, Criterion

_TEST_FOLDERS = frozenset({"test", "tests", "spec", "__tests__", "testdata"})
_TEST_NAMES = (
    "test_*.py", "*_test.py", "conftest.py", "*_test.go", "*_spec.rb", "*_test.rb", "*.test.*", "*.spec.*",
    "*Test.java", "*Tests.java", "*IT.java", "*Test.kt", "*Tests.cs", "*Test.php", "*_test.exs", "*_test.dart", "*.bats",
)  # fmt: skip


class _Where(NamedTuple):
    """Paths of one kind: names and folders at any depth, and beginnings, which are whole files or end in ``/``."""

    names: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    begins: tuple[str, ...] = ()

    def holds(self, path: str, folders: set[str], name: str) -> bool:
        if name in self.names or not self.folders.isdisjoint(folders):
            return True
        return any(path == one or (one.endswith("/") and path.startswith(one)) for one in self.begins)


# fmt: off
_KINDS = (
    ("ci", _Where(
        names=frozenset({"Jenkinsfile", ".gitlab-ci.yml"}),
        begins=(".github/workflows/", ".github/actions/", ".gitlab/ci/", ".circleci/", ".buildkite/", ".woodpecker/",
                ".forgejo/", ".gitea/", ".ci/", ".travis.yml", "appveyor.yml", ".appveyor.yml", "azure-pipelines.yml",
                "bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml", ".cirrus.yml"),
    )),
    ("hooks", _Where(
        names=frozenset({".pre-commit-config.yaml", ".pre-commit-hooks.yaml", ".gitattributes", ".gitmodules",
                         ".gitconfig", ".envrc", "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml"}),
        folders=frozenset({".husky", ".githooks", ".git-hooks"}),
    )),
    ("agent instructions", _Where(
        names=frozenset({"AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".mcp.json",
                         ".cursorrules", ".windsurfrules", ".clinerules", ".goosehints", ".aider.conf.yml",
                         "opencode.json", "opencode.jsonc", "copilot-instructions.md"}),
        folders=frozenset({".claude", ".codex", ".gemini", ".cursor", ".opencode", ".agents", ".windsurf"}),
        begins=(".github/instructions/", ".github/prompts/"),
    )),
    ("settings of the run", _Where(begins=("orchconverge.toml", ".worktreeinclude"))),
)
# fmt: on

_RUNNERS = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "npm": ("package.json",), "pnpm": ("package.json",), "yarn": ("package.json",), "bun": ("package.json",),
    "pytest": ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"),
    "tox": ("tox.ini",), "nox": ("noxfile.py",), "rake": ("Rakefile",),
    "just": ("justfile", "Justfile", ".justfile"), "task": ("Taskfile.yml", "Taskfile.yaml"),
    "cargo": (".cargo/config.toml", ".cargo/config"),
}  # fmt: skip
"""A program in a criterion's command -> the files that hold what it really runs. Files that hold more than that and change
with every dependency (pyproject.toml, pom.xml) are not among them; `package.json` is: it holds the command itself."""

_READERS = frozenset({
    "test", "[", "[[", "grep", "egrep", "fgrep", "rg", "cat", "ls", "stat", "wc", "head", "tail", "echo", "printf", "jq",
    "file", "mkdir", "touch", "rm", "true", "false", "exit",
})  # fmt: skip
"""Programs whose arguments are what the work is to bring about, not what judges it: ``grep -q yes done.txt``."""
_BEFORE = frozenset({
    "!", "{", "if", "then", "elif", "else", "while", "until", "do", "time", "exec", "env", "nice", "nohup", "command", "sudo",
})  # fmt: skip
"""Words after which a command still begins."""
_WORD = re.compile(r"[^\s'\"`;|&()<>{}$=,:]+")
_INNER = re.compile(r"[\s;|&()`]")
"""In one quoted word: it may be a command line of its own, as in ``sh -c "./check.sh all"``."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
_MOST_PLACES = 50
_DEEPEST = 3


class Changes(Protocol):
    """What a candidate changed; `orchconverge.ports.Work` is one. Paths are relative to the root, with ``/``."""

    @property
    def changed(self) -> Sequence[str]:
        """All paths that were added, changed or removed; both names of a renamed one."""

    @property
    def removed_lines(self) -> Mapping[str, int]:
        """Path -> lines that are no longer there."""

    @property
    def executable_changed(self) -> Sequence[str]:
        """Paths whose executable bit was set or taken away, or that became a link."""


def flags(work: Changes, criteria: Iterable[Criterion], may_change: Sequence[str] = ()) -> tuple[str, ...]:
    """Every flag of a candidate as ``kind: path``, those of the criteria's own commands first, else sorted; unique.

    A glob of ``may_change`` lifts each flag on a path that it matches.
    """
    commands = [criterion.command for criterion in criteria if criterion.kind in RUN_BY_US]
    judged_by = _Judges(commands)
    touched = dict.fromkeys((*work.changed, *work.executable_changed))
    found = [
        (kind, path)
        for path in touched
        if not any(matches(path, glob) for glob in may_change)
        for kind in _kinds(path, work.removed_lines.get(path, 0), judged_by)
    ]
    found.sort(key=lambda flag: (flag[0] != _OWN, flag))
    return tuple(dict.fromkeys(f"{kind}: {path}" for kind, path in found))


def matches(path: str, glob: str) -> bool:
    """Whether a path matches a glob: ``*``, ``?`` and ``[...]`` within a name, ``**`` for any number of folders.

    ``tests/**`` and ``tests/`` are everything below `tests`; ``**/x.py`` is an x.py at any depth. Case counts.
    """
    pattern = glob.removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    parts = path.split("/")
    reached = {0}  # how many leading names of the path the pattern so far can cover
    names = pattern.split("/")
    for place, name in enumerate(names):
        if name == "**":
            least = min(reached)
            # at the end it must cover something: `tests/**` is not `tests`
            reached = set(range(least + (place == len(names) - 1), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], name)}
        if not reached:
            return False
    return len(parts) in reached


def is_test(path: str) -> bool:
    """Whether a path looks like a test, by its folder or its name."""
    *folders, name = path.split("/")
    return bool(_TEST_FOLDERS & set(folders)) or any(fnmatchcase(name, glob) for glob in _TEST_NAMES)


_OWN = "criterion"


class _Judges:
    """The files that the commands of the criteria name, and those behind the programs that they start."""

    def __init__(self, commands: Iterable[str]) -> None:
        self._named = set[str]()
        for command in commands:
            plain = {re.sub(r"/(?:\./|/)*", "/", word).removeprefix("./").rstrip("/") for word in _named(command)}
            files = {file for word in plain for file in _RUNNERS.get(word.rpartition("/")[2], ())}
            self._named |= plain | files
            # `make -C web test` and `cd web && npm test` read their files there
            self._named |= {f"{place}/{file}" for place in sorted(plain)[:_MOST_PLACES] for file in files}
            for word in plain:
                if _MODULE.fullmatch(word):  # as in `python3 -m tools.check`
                    path = word.replace(".", "/")
                    self._named |= {f"{path}.py", f"{path}/__main__.py"}

    def names(self, path: str) -> bool:
        """Whether the path is one of them."""
        return path in self._named


def _named(command: str, *, depth: int = 0) -> Iterator[str]:
    """The words of a shell command line that may be files it runs or measures by; see `_READERS` for those left out."""
    lexer = shlex.shlex(command.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed
        yield from _WORD.findall(command)
        return
    begins, reader = True, False
    for word in words:
        if word and not word.strip(";|&()"):
            begins = True
        elif begins and (word in _BEFORE or _ASSIGNMENT.match(word)):
            continue
        elif begins:
            begins, reader = False, word in _READERS
            yield from _WORD.findall(word)
        elif depth < _DEEPEST and _INNER.search(word) and (not reader or "$(" in word or "`" in word):
            yield from _named(word.replace("`", " ; "), depth=depth + 1)
        elif not reader:
            yield from _WORD.findall(word)


def _kinds(path: str, removed: int, judged_by: _Judges) -> Iterator[str]:
    if judged_by.names(path):
        yield _OWN
    if removed and is_test(path):
        yield "test removed"
    *above, name = path.split("/")
    folders = set(above)
    for kind, where in _KINDS:
        if where.holds(path, folders, name):
            yield kind
