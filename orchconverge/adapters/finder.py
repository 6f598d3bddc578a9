"""What a repository itself says of how it is tested, and what a person may type as a criterion."""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from orchconverge.core.judging import drafted
from orchconverge.core.target import IN_THE_CHAIN, Criterion, Kind, slug
from orchconverge.errors import Refused
from orchconverge.whereabouts import read_regular, toml

MOST_BYTES = 1 << 20
_MOST_ENTRIES = 2000
_DEEPEST = 3
_SECONDS = 10.0

_PLACEHOLDER = "no test specified"
"""What `npm init` writes as scripts.test: https://docs.npmjs.com/cli/commands/npm-init ."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_PYTEST_FILES = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "conftest.py", "tests/conftest.py")
_PYTEST_SECTION = re.compile(r"^[ \t]*\[[ \t]*(?:tool[.:])?pytest\b", re.MULTILINE)
_PYTEST_NEEDED = re.compile(r"""^[ \t]*pytest[ \t]*=|["']pytest(?:["'<>=~!;\[ ])""", re.MULTILINE)
_TEST_FILE = re.compile(r"(?:test_.*|.*_test)\.py")
_DOCS = ("README.md",)

CHANGED = Criterion(name="changed", kind="changed")
MERGEABLE = Criterion(name="mergeable", kind="mergeable")


def found(root: Path) -> tuple[Criterion, ...]:
    """The criteria of the repository at ``root`` when none are given: its tests, if it says how, and the two conditions.

    The first of these that applies: pytest or unittest, package.json, Cargo.toml, go.mod, a Makefile. No link that leaves
    ``root`` is followed and no file above 1 MiB is read.
    """
    command = _python(root) or _node(root) or _cargo(root) or _go(root) or _make(root)
    tests = (Criterion(name="tests", kind="tests", command=command),) if command else ()
    return (*tests, CHANGED, MERGEABLE)


def criterion_from(text: str, found: Sequence[Criterion] = ()) -> Criterion:
    """Read one `--criterion`: ``NAME=COMMAND``, a kind alone, ``docs=PATH[,PATH]`` or ``tests=COMMAND``.

    ``tests`` alone is the one that was ``found``. Raises `Refused` with what to type.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    try:
        return _given(name, value) if equals else _alone(name, found)
    except ValueError as error:
        raise Refused(
            f"--criterion {_short(text)}: {error}", hint='write e.g. --criterion done="./check.sh"'
        ) from error


def _given(name: str, value: str) -> Criterion:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
        raise Refused(
            f"{_short(name)!r} cannot be the name of a criterion: a-z, 0-9 and - only",
            hint=f'write --criterion {slug(name, longest=64)}="{_short(value) or "COMMAND"}"',
        )
    if not value:
        raise Refused(f"criterion {name} has nothing after the =", hint=f'write --criterion {name}="{_example(name)}"')
    if name == "docs":
        return Criterion(name=name, kind="docs", paths=tuple(_paths(value)))
    if name == "judge":
        return _judged(value)
    if name == "tests":
        return Criterion(name=name, kind="tests", command=value)
    if name in IN_THE_CHAIN or name in ("changed", "mergeable"):
        raise Refused(
            f"{name} is a kind of its own and takes no command",
            hint=f'write --criterion {name}, or give the command another name: --criterion my-{name}="{_short(value)}"',
        )
    return Criterion(name=name, command=value)


def _alone(name: str, found: Sequence[Criterion]) -> Criterion:
    if name == "tests":
        own = next((criterion for criterion in found if criterion.kind == "tests"), None)
        if own is None:
            raise Refused("nothing here says how tests are run", hint='write --criterion tests="COMMAND"')
        return own
    if name == "docs":
        return Criterion(name=name, kind="docs", paths=_DOCS)
    if name == "changed":
        return CHANGED
    if name == "mergeable":
        return MERGEABLE
    for kind in ("pr", "ci", "review"):
        if name == kind:
            return Criterion(name=name, kind=kind, stage="chain")
    if name == "judge":
        raise Refused("a judge has to be told what must be true", hint=f'write --criterion judge="{_example(name)}"')
    kinds = [kind for kind in get_args(Kind) if kind != "command"]
    near = difflib.get_close_matches(name, kinds, n=1)
    asks = f"did you mean --criterion {near[0]}? or" if near else "to have a command run"
    raise Refused(
        f"{_short(name)!r} is no kind of criterion",
        hint=f'{asks} write --criterion {slug(name, longest=64)}="COMMAND"; kinds are {", ".join(kinds)}',
    )


def _judged(text: str) -> Criterion:
    try:
        return drafted(Criterion(name="judge", kind="judge", text=text))
    except ValueError as error:
        raise Refused(str(error), hint="write fewer, or several targets: so many are not one thing") from error


def _paths(value: str) -> Iterator[str]:
    for part in value.split(","):
        path = part.strip().removeprefix("./")
        if not path:
            continue
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"{path} is not a path inside the repository")
        yield path


def _example(name: str) -> str:
    return {"docs": "README.md,CHANGELOG.md", "judge": "what must be true"}.get(name, "COMMAND")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}\N{HORIZONTAL ELLIPSIS}"


def _python(root: Path) -> str | None:
    """How Python tests are run here.

    Always the plain `python3` of the PATH, also where the root has a `.venv`: that folder is not part of a commit, so the
    same command would fail in every tree of ours. A virtual environment that is active is first on the PATH anyway; for
    any other, `setup` or a criterion of one's own is the place.
    """
    tests = list(_test_files(root))
    if _pytest_declared(root):
        return "python3 -m pytest -q"
    if not tests:
        return None
    plain = all(path.rsplit("/", 1)[-1].startswith("test") for path in tests) and all(
        "unittest" in text and "pytest" not in text for text in _texts(root, tests[:50])
    )
    if not plain or _pytest_importable():
        return "python3 -m pytest -q"
    folders = {path.split("/")[0] for path in tests if "/" in path}
    bare = [folder for folder in sorted(folders) if _text(root, f"{folder}/__init__.py") is None]
    if bare and len(folders) == 1 and not any("/" not in path for path in tests):
        # since Python 3.11 discovery from the top does not enter a folder without __init__.py: it would find nothing
        return f"python3 -m unittest discover -v -s {bare[0]}"
    return "python3 -m unittest -v"


def _pytest_declared(root: Path) -> bool:
    if any(_text(root, name) is not None for name in _PYTEST_FILES):
        return True
    for name in ("pyproject.toml", "tox.ini", "setup.cfg"):
        text = _text(root, name) or ""
        if _PYTEST_SECTION.search(text) or (name == "pyproject.toml" and _PYTEST_NEEDED.search(text)):
            return True
    return False


def _pytest_importable() -> bool:
    """Whether the `python3` that will run the tests has pytest; asked from `/`, so that nothing here is imported."""
    asks = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pytest') is None)"
    quiet = subprocess.DEVNULL
    try:
        answer = subprocess.run(
            ["python3", "-c", asks], cwd="/", stdin=quiet, stdout=quiet, stderr=quiet, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def _test_files(root: Path) -> Iterator[str]:
    """Test files at the top and up to three folders below `tests` and `test`; at most 2,000 entries are looked at."""
    left = _MOST_ENTRIES
    pending = [("", 0), ("tests", 1), ("test", 1)]
    while pending and left > 0:
        folder, depth = pending.pop(0)
        if folder and (root / folder).is_symlink():
            continue
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries[:left]:
            left -= 1
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if 0 < depth <= _DEEPEST and not entry.name.startswith("."):
                    pending.append((path, depth + 1))
            elif _TEST_FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                yield path


def _node(root: Path) -> str | None:
    scripts = _table(root, "package.json").get("scripts")
    script = scripts.get("test") if isinstance(scripts, dict) else None
    if not isinstance(script, str) or not script.strip() or _PLACEHOLDER in script:
        return None
    return "npm test --silent"


def _cargo(root: Path) -> str | None:
    return "cargo test" if _table(root, "Cargo.toml").keys() & {"package", "workspace"} else None


def _go(root: Path) -> str | None:
    return (
        "go test -json ./..."
        if re.search(r"^[ \t]*module[ \t]+\S", _text(root, "go.mod") or "", re.MULTILINE)
        else None
    )


def _make(root: Path) -> str | None:
    """`make test`, else `make check`: targets of the first makefile that GNU make would read."""
    text = next((text for name in _MAKEFILES if (text := _text(root, name)) is not None), "")
    targets = set[str]()
    for line in text.splitlines():
        head, colon, rest = line.partition(":")
        if colon and not line.startswith(("\t", "#")) and "=" not in head and not rest.lstrip(":").startswith("="):
            targets.update(head.split())
    return next((f"make {target}" for target in ("test", "check") if target in targets), None)


def _table(root: Path, name: str) -> dict[str, Any]:
    text = _text(root, name)
    if text is None:
        return {}
    try:
        table = toml(text.encode(), name) if name.endswith(".toml") else json.loads(text)
    except (Refused, ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _texts(root: Path, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield _text(root, name) or ""


def _text(root: Path, name: str) -> str | None:
    """A file's text, wrong bytes replaced; ``None`` if it is missing, too large, or really lies outside of ``root``."""
    real = Path(os.path.realpath(root / name))
    if Path(os.path.realpath(root)) not in real.parents:
        return None
    try:
        data = read_regular(real, most_bytes=MOST_BYTES)
    except Refused:
        return None
    return None if data is None else data.decode("utf-8", "replace")
