"""One file that a command writes because a person named it: put in place whole, through no link."""

from __future__ import annotations

import sys
from pathlib import Path

from orchconverge.errors import Refused
from orchconverge.files import write_inside


def put(name: str, text: str) -> bool:
    """Write ``text`` into the file of that name, or to the output if it is ``-``; whether it was a file.

    What is there of that name is replaced, if it is a file and no link. Raises `Refused`.
    """
    if name == "-":
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        return False
    path = Path(name).absolute()
    if not name.strip() or not path.name:
        raise Refused(f"{name!r} names no file", hint="name one, or - for the output")
    if not path.parent.is_dir():
        raise Refused(f"{path.parent} is no folder", hint=f"mkdir -p {path.parent}")
    write_inside(path.parent.resolve(), path.name, text.encode("utf-8", "replace"))
    return True
