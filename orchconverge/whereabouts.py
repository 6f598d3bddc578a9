"""Where things lie: the repository around a directory, its settings files, and the folders that we keep.

Standard library only and no subprocess: `--status` must answer before git or pydantic could have been loaded. Every other
module that needs one of these places asks here, so that nobody looks for them in two ways.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from orchconverge.errors import Refused

STATE_VARIABLE = "ORCHCONVERGE_STATE_DIR"
IDENTITY = "id"
"""The file of a state directory that tells its repository from another one that was at the same place before."""
MOST_SETTINGS_BYTES = 1 << 20
_MOST_GITFILE_BYTES = 1 << 16


class Repository(NamedTuple):
    """A repository as git would find it. ``root`` is the working tree's top, ``None`` in a bare one or inside `.git`."""

    root: Path | None
    git_dir: Path
    common_dir: Path

    @property
    def main_root(self) -> Path:
        """The main working tree, the same for every linked one: what a repository's relative paths are relative to."""
        if self.common_dir.name == ".git":
            return self.common_dir.parent
        return self.root or self.common_dir


class SettingsFile(NamedTuple):
    """One file that holds settings of ours: ``name`` is what a person calls it, ``from_repository`` whether it came with one."""

    name: str
    path: Path
    table: dict[str, Any]
    from_repository: bool


class Places(NamedTuple):
    """Our folders for one repository. None of them need exist. Only ``state`` may lie inside a `.git`."""

    state: Path
    trees: Path
    minds: Path


def repository(start: Path) -> Repository | None:
    """The repository that holds ``start``, found as git does (up, never onto another file system); ``None`` if there is none.

    `GIT_DIR` and its kin are not looked at, as in all of our git calls. Raises `Refused` where git would give up too: a
    `.git` file that leads nowhere.
    """
    here = Path(os.path.realpath(start))
    device = _device(here)
    for folder in (here, *here.parents):
        if _device(folder) != device:
            return None
        dot_git = folder / ".git"
        if stat.S_ISREG(_mode(dot_git)):
            return _found(folder, _followed(dot_git))
        if _is_git_dir(dot_git):
            return _found(folder, dot_git)
        if _is_git_dir(folder):
            return _found(None, folder)
    return None


def required(start: Path) -> Repository:
    """As `repository`, but having none is `Refused`."""
    found = repository(start)
    if found is None:
        raise Refused(f"{start} is not in a git repository", hint="change into one, or make one: `git init`")
    return found


def places(
    repo: Repository,
    *,
    state_dir: Path | str | None = None,
    files: tuple[SettingsFile, ...] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Places:
    """All of our folders. ``state_dir`` is the command line's; ``files`` are `settings_files`, read here unless given."""
    env = os.environ if environ is None else environ
    found = settings_files(repo.root, environ=env, mentioning=b"state_dir") if files is None else files
    state = _state(repo, state_dir, found, env)
    name = "-".join(filter(None, (repo_name(repo), identity(state))))
    return Places(
        state=state,
        trees=base_folder("XDG_DATA_HOME", ".local/share", env) / "orchconverge" / name / "trees",
        minds=base_folder("XDG_STATE_HOME", ".local/state", env) / "orchconverge" / name,
    )


def identity(state: Path) -> str:
    """What tells this repository's folders from those of another that was at its place; empty for ledgers older than that."""
    data = read_regular(state / IDENTITY, most_bytes=64) or b""
    return data.decode("ascii", "replace") if data.isalnum() else ""


def repo_name(repo: Repository) -> str:
    """A folder name for the repository: readable, the same in each of its working trees, and no other repository's."""
    import hashlib  # about 1 ms, and only where a name is asked for

    real = os.path.realpath(repo.common_dir)
    readable = re.sub(r"[^a-z0-9]+", "-", repo.main_root.name.lower().removesuffix(".git")).strip("-")[:40].strip("-")
    return f"{readable or 'repo'}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:10]}"


def base_folder(variable: str, default: str, environ: Mapping[str, str] | None = None) -> Path:
    """An XDG base directory; a relative value is ignored, as https://specifications.freedesktop.org/basedir/ asks.

    Without a usable `HOME` the user database is asked. Raises `Refused` if that knows none either.
    """
    env = os.environ if environ is None else environ
    given = env.get(variable, "")
    if Path(given).is_absolute():
        return Path(given)
    return _home(env, variable) / default


def settings_files(
    root: Path | None, *, environ: Mapping[str, str] | None = None, mentioning: bytes = b""
) -> tuple[SettingsFile, ...]:
    """The settings files that exist, strongest first; only those ``mentioning`` a word, since parsing costs 2 ms.

    Raises `Refused` for one that cannot be read as TOML, and for a repository with two.
    """
    env = os.environ if environ is None else environ
    found: list[SettingsFile] = []
    if root is not None:
        own, project = root / "orchconverge.toml", root / "pyproject.toml"
        own_table = _table(own, "orchconverge.toml", mentioning)
        section = _section(_table(project, "pyproject.toml", mentioning, b"orchconverge"))
        if own_table is not None and section is not None:
            raise Refused(
                "orchconverge.toml and [tool.orchconverge] of pyproject.toml both hold settings",
                hint="keep one of the two",
            )
        if own_table is not None:
            found.append(SettingsFile("orchconverge.toml", own, own_table, from_repository=True))
        if section is not None:
            found.append(SettingsFile("[tool.orchconverge] of pyproject.toml", project, section, from_repository=True))
    try:
        user = base_folder("XDG_CONFIG_HOME", ".config", env) / "orchconverge" / "config.toml"
    except Refused:
        return tuple(found)
    user_table = _table(user, str(user), mentioning)
    if user_table is not None:
        found.append(SettingsFile(str(user), user, user_table, from_repository=False))
    return tuple(found)


def read_regular(path: Path, *, most_bytes: int) -> bytes | None:
    """The bytes of a regular file, or ``None`` if there is no such file. Never waits on a pipe or device.

    Raises `Refused` if it is longer than ``most_bytes``, no regular file, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", hint="make it readable, or remove it") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Refused(f"{path} is not a regular file", hint="remove it")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", hint="make it readable, or remove it") from error
    finally:
        os.close(descriptor)
    if len(data) > most_bytes:
        raise Refused(f"{path} is larger than {most_bytes} bytes", hint="make it smaller")
    return data


def toml(data: bytes, name: str) -> dict[str, Any]:
    """The table in ``data``. Raises `Refused` that names the file and the place in it."""
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused(f"{name} is not UTF-8 text (byte {error.start})", hint="save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"{name} is not TOML: {error}", hint="mend that line") from error
    except (RecursionError, ValueError) as error:
        raise Refused(f"{name} is not TOML that can be read: {error}", hint="make it simpler") from error


def _found(root: Path | None, git_dir: Path) -> Repository:
    real = Path(os.path.realpath(git_dir))
    pointer = read_regular(real / "commondir", most_bytes=_MOST_GITFILE_BYTES)
    common = real if pointer is None else Path(os.path.realpath(real / os.fsdecode(pointer).strip()))
    return Repository(root, real, common)


def _followed(dot_git: Path) -> Path:
    """Where a `.git` file (linked worktree, submodule) leads; see gitrepository-layout(5)."""
    text = os.fsdecode(read_regular(dot_git, most_bytes=_MOST_GITFILE_BYTES) or b"").rstrip("\r\n")
    target = text.removeprefix("gitdir: ")
    if target == text or not target or "\0" in target:
        raise Refused(f"{dot_git} does not say where its repository is", hint="see `git status` there")
    git_dir = dot_git.parent / target
    if not _is_git_dir(git_dir):
        raise Refused(
            f"{dot_git} leads to {target}, which is no repository", hint="run `git worktree repair` in the main tree"
        )
    return git_dir


def _is_git_dir(path: Path) -> bool:
    """Git's own test, without reading HEAD: https://git-scm.com/docs/gitrepository-layout ."""
    if not os.path.lexists(path / "HEAD"):
        return False
    if stat.S_ISREG(_mode(path / "commondir")):
        return True
    return stat.S_ISDIR(_mode(path / "objects")) and stat.S_ISDIR(_mode(path / "refs"))


def _mode(path: Path) -> int:
    """The file's mode, links followed; 0 where that cannot be known (`Path.is_file` raises for a closed folder)."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def _device(path: Path) -> int | None:
    try:
        return path.stat().st_dev
    except OSError:
        return None


def _home(env: Mapping[str, str], variable: str) -> Path:
    home = env.get("HOME", "")
    if not Path(home).is_absolute():
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            home = ""
    if not Path(home).is_absolute():
        raise Refused("this user has no home directory", hint=f"set HOME, or {variable}, to an absolute path")
    return Path(home)


def _state(repo: Repository, given: Path | str | None, files: tuple[SettingsFile, ...], env: Mapping[str, str]) -> Path:
    asked = given or env.get(STATE_VARIABLE) or None
    if asked is not None:
        path = _expanded(str(asked), env)
        if not path.is_absolute():  # it would be another place in each directory, and the controller is in its own
            raise Refused(f"{STATE_VARIABLE} is not absolute: {asked}", hint="write the whole path")
        return Path(os.path.realpath(path))
    for file in files:
        value = file.table.get("state_dir")
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise Refused(f"state_dir in {file.name} is not a path", hint='write it as text: state_dir = "state/live"')
        return _within(repo.main_root, value, file) if file.from_repository else _absolute(value, file, env)
    return repo.common_dir / "orchconverge"


def _within(root: Path, value: str, file: SettingsFile) -> Path:
    """A folder inside the repository: what comes with one must not choose where else on this machine we write."""
    top, real = Path(os.path.realpath(root)), Path(os.path.realpath(root / value))
    if Path(value).is_absolute() or top not in real.parents:
        raise Refused(
            f"state_dir in {file.name} leaves the repository: {value}",
            hint=f"give a folder inside it; or, for any other place, {STATE_VARIABLE}",
        )
    return real


def _absolute(value: str, file: SettingsFile, env: Mapping[str, str]) -> Path:
    path = _expanded(value, env)
    if not path.is_absolute():
        raise Refused(
            f"state_dir in {file.name} is not absolute: {value}",
            hint="it is for every repository: write the whole path",
        )
    return Path(os.path.realpath(path))


def _expanded(value: str, env: Mapping[str, str]) -> Path:
    if value == "~" or value.startswith("~/"):
        return _home(env, STATE_VARIABLE) / value[2:]
    return Path(value)


def _table(path: Path, name: str, *words: bytes) -> dict[str, Any] | None:
    data = read_regular(path, most_bytes=MOST_SETTINGS_BYTES)
    if data is None or not all(word in data for word in words):
        return None
    return toml(data, name)


def _section(table: dict[str, Any] | None) -> dict[str, Any] | None:
    tool = (table or {}).get("tool")
    section = tool.get("orchconverge") if isinstance(tool, dict) else None
    if section is not None and not isinstance(section, dict):
        raise Refused("tool.orchconverge in pyproject.toml is not a table", hint="write it as [tool.orchconverge]")
    return section
