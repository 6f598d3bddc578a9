"""Places slash commands, takes them away and says how they stand. What a person changed, or made, is never touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from orchconverge.core.slash import File, Standing, standing
from orchconverge.errors import Refused
from orchconverge.ports.commands import CommandFiles

NAMED = 6
"""How many files a refusal names."""


class Found(Struct, frozen=True):
    """A file, where it belongs, how it stood, and what was done about it."""

    files: CommandFiles
    file: File
    standing: Standing
    did: Literal["", "written", "removed"] = ""

    @property
    def where(self) -> str:
        """Its whole path."""
        return str(self.files.root / self.file.path)


def look(wanted: Iterable[tuple[CommandFiles, File]]) -> list[Found]:
    """How each file stands. Raises `Refused` for what lies behind a link."""
    return [Found(files, file, standing(files.read(file.path), file.data)) for files, file in wanted]


def install(wanted: Iterable[tuple[CommandFiles, File]]) -> list[Found]:
    """Write what is missing and what an older version wrote. Raises `Refused`, and has written nothing, where one is not ours."""
    found = look(wanted)
    _refuse(found, "overwritten")
    return [_written(each) if each.standing in ("missing", "outdated") else each for each in found]


def uninstall(wanted: Iterable[tuple[CommandFiles, File]]) -> list[Found]:
    """Take away all that is ours. Raises `Refused`, and has removed nothing, where one is not, or not any more."""
    found = look(wanted)
    _refuse(found, "removed")
    return [_removed(each) if each.standing in ("fine", "outdated") else each for each in found]


def _written(each: Found) -> Found:
    each.files.write(each.file.path, each.file.data)
    return replace(each, did="written")


def _removed(each: Found) -> Found:
    each.files.remove(each.file.path)
    return replace(each, did="removed")


def _refuse(found: Sequence[Found], what: str) -> None:
    kept = {word: [each.where for each in found if each.standing == word] for word in ("changed", "not ours")}
    said = [
        f"{'changed' if word == 'changed' else 'not ours'}: {_named(paths)}" for word, paths in kept.items() if paths
    ]
    if said:
        raise Refused(
            f"nothing was done, for these are not {what}: {'; '.join(said)}",
            hint="move them away, or name the other agents: --agent NAME",
        )


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(paths[:NAMED]) + more
