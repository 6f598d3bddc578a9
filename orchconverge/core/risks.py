"""What a change is made of, by path and by content: the kinds of its files, and what of it is to be looked at first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchconverge.core.flags import flags, is_test
from orchconverge.core.measures import Shown
from orchconverge.core.overlap import Change, Difference
from orchconverge.core.target import Criterion

KINDS: Final = ("source", "tests", "docs", "config", "lockfile", "ci", "hooks", "agent instructions")
"""What a file can be, in the order in which they are shown."""
LOOKED_FOR: Final = (
    *("criterion", "test removed", "ci", "hooks", "agent instructions", "settings of the run"),
    *("secret", "test skipped", "fewer assertions", "lockfile", "config", "permission", "link", "submodule", "binary"),
)
"""Every kind of risk; those before `secret` are the flags of `orchconverge.core.flags`."""
_LOCKS: Final = frozenset({
    "uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock",
    "pnpm-lock.yaml", "bun.lock", "bun.lockb", "Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "mix.lock",
    "flake.lock", "gradle.lockfile", "packages.lock.json", "Podfile.lock", "pubspec.lock",
})  # fmt: skip
_CONFIG: Final = frozenset({
    "Makefile", "makefile", "GNUmakefile", "Dockerfile", "Containerfile", "justfile", "Justfile", "Rakefile", "Gemfile",
    "package.json", "tsconfig.json", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts", "setup.py", "noxfile.py",
    "CMakeLists.txt", "requirements.txt", "MANIFEST.in", ".editorconfig", ".gitignore", ".dockerignore",
})  # fmt: skip
_CONFIG_ENDS: Final = (".toml", ".ini", ".cfg", ".yml", ".yaml", "rc", "rc.json", ".config.js", ".config.ts")
_DOCS_ENDS: Final = (".md", ".rst", ".adoc", ".mdx")
_DOCS_FOLDERS: Final = frozenset({"docs", "doc"})
_SECTION: Final = re.compile(r"^diff --git ", re.MULTILINE)
"""It cannot begin a line of content: that begins with a plus, a minus, a blank or a backslash."""
_MODE: Final = re.compile(r"^(?:new file mode|new mode) (\d+)$", re.MULTILINE)
_OLD_MODE: Final = re.compile(r"^old mode ", re.MULTILINE)
_SKIPS: Final = re.compile(
    r"pytest\.mark\.(?:skip|xfail)|pytest\.(?:skip|xfail)\(|unittest\.(?:skip|expectedFailure)|\.skipTest\("
    r"|\b(?:it|test|describe|context)\.(?:only|skip|todo)\b|\bx(?:it|describe)\(|\bt\.Skip|#\[ignore|@(?:Disabled|Ignore)\b"
)
_ASSERTS: Final = re.compile(r"\b(?:assert\w*|expect|require|should)\b")
_SECRETS: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_\w{40}"
    r"|\bsk-[A-Za-z0-9_-]{32}|\bxox[abprs]-[\w-]{10}"
    r"|(?i:\b(?:password|passwd|secret|api_?key|token)\s*[=:]\s*[\"'][^\"'\s]{12,}[\"'])"
)


class Counted(Shown, frozen=True, kw_only=True):
    """The files of one of `KINDS`: how many, and how many lines come and go."""

    kind: str
    files: int
    added: int
    removed: int


class Risk(Shown, frozen=True, kw_only=True):
    """Something to look at: one of `LOOKED_FOR` and a path. ``flagged``: on record, and a person is asked for a word.

    ``count`` is how much, in words: ``+12 -0``, ``2 fewer``, ``binary``.
    """

    kind: str
    path: str
    count: str
    flagged: bool


class _Changed:
    """A difference as `flags` wants it."""

    def __init__(self, changes: Iterable[Change]) -> None:
        changed = [*changes]
        self.changed = [path for c in changed for path in (c.path, c.old_path) if path]
        self.removed_lines = {c.old_path or c.path: c.removed or 0 for c in changed}
        self.executable_changed: Sequence[str] = ()


def kind(path: str) -> str:
    """Which of `KINDS` a file is, by its path alone."""
    *folders, name = path.split("/")
    if name in _LOCKS:
        return "lockfile"
    for flag in flags(_Changed([Change(kind="M", path=path, added=0, removed=0)]), ()):
        flagged = flag.partition(": ")[0]
        return flagged if flagged in KINDS else "config"
    if is_test(path):
        return "tests"
    if name.endswith(_DOCS_ENDS) or _DOCS_FOLDERS & set(folders):
        return "docs"
    return "config" if name in _CONFIG or name.endswith(_CONFIG_ENDS) else "source"


def counts(found: Difference) -> tuple[Counted, ...]:
    """What was changed, by kind, in the order of `KINDS`."""
    by_kind: dict[str, list[Change]] = {}
    for change in found.changes:
        by_kind.setdefault(kind(change.path), []).append(change)
    return tuple(
        Counted(
            kind=name,
            files=len(by_kind[name]),
            added=sum(change.added or 0 for change in by_kind[name]),
            removed=sum(change.removed or 0 for change in by_kind[name]),
        )
        for name in KINDS
        if name in by_kind
    )


def risks(recorded: Sequence[str], found: Difference, criteria: Iterable[Criterion]) -> tuple[Risk, ...]:
    """What is to be looked at: first the flags on record, each in the order of `LOOKED_FOR`. Wants the patch for content."""
    changes = {change.path: change for change in found.changes}
    changes |= {change.old_path: change for change in found.changes if change.old_path}
    by_path = flags(_Changed(found.changes), criteria)
    told: dict[tuple[str, str], str] = {}
    for flag in (*recorded, *by_path):
        name, _, path = flag.partition(": ")
        told.setdefault((name, path), _lines(changes.get(path)))
    for name, path, count in _by_content(found):
        told.setdefault((name, path), count)
    order = {name: place for place, name in enumerate(LOOKED_FOR)}
    seen = [
        Risk(kind=name, path=path, count=count, flagged=f"{name}: {path}" in recorded)
        for (name, path), count in told.items()
    ]
    return tuple(sorted(seen, key=lambda risk: (not risk.flagged, order.get(risk.kind, -1), risk.path)))


def untouched(seen: Iterable[Risk]) -> tuple[str, ...]:
    """The kinds that were looked for and not found, so that silence is a statement."""
    touched = {risk.kind for risk in seen}
    return tuple(name for name in LOOKED_FOR if name not in touched)


def _lines(change: Change | None) -> str:
    if change is None:
        return ""
    return "binary" if change.added is None else f"+{change.added} -{change.removed}"


def _by_content(found: Difference) -> Iterator[tuple[str, str, str]]:
    sections = _sections(found)
    for change in found.changes:
        sort = kind(change.path)
        if sort in ("lockfile", "config") and not flags(_Changed([change]), ()):
            yield sort, change.path, _lines(change)
        if change.added is None:
            yield "binary", change.path, "binary"
        head, _, body = sections.get(change.path, "").partition("\n@@")
        for mode in _MODE.findall(head):
            if mode in ("120000", "160000"):
                yield "link" if mode == "120000" else "submodule", change.path, _lines(change)
            elif mode == "100755" or _OLD_MODE.search(head):
                yield "permission", change.path, f"mode {mode[-3:]}"
        yield from _in_lines(change.path, body)


def _in_lines(path: str, body: str) -> Iterator[tuple[str, str, str]]:
    lines = body.split("\n")[1:]
    added = [line for line in lines if line.startswith("+")]
    secrets = sum(_SECRETS.search(line) is not None for line in added)
    if secrets:
        yield "secret", path, f"{secrets} like one"
    if not is_test(path):
        return
    skipped = sum(_SKIPS.search(line) is not None for line in added)
    if skipped:
        yield "test skipped", path, f"{skipped} added"
    fewer = sum(len(_ASSERTS.findall(line)) * (1 if line[0] == "-" else -1) for line in lines if line[:1] in ("+", "-"))
    if fewer > 0:
        yield "fewer assertions", path, f"{fewer} fewer"


def _sections(found: Difference) -> Mapping[str, str]:
    """Path -> its part of the patch. One of another type is shown as a file that goes and one that comes."""
    parts = iter(_SECTION.split(found.patch)[1:])
    sections: dict[str, str] = {}
    for change in found.changes:
        text = next(parts, "")
        sections[change.path] = next(parts, text) if change.kind == "T" else text
    return sections
