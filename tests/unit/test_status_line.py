"""`status --line`: for prompts and status bars, so quiet where there is nothing, and ASCII where the rest would be broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchconverge.core.events import BasinKilled
from orchconverge.core.upcast import encode
from tests.stories import Story, check

POSIX = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def line(folder: Path, **env: str) -> str:
    argv = [sys.executable, "-P", "-m", "orchconverge", "status", "--line"]
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **env}
    ran = subprocess.run(argv, cwd=folder, env=given, capture_output=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, b"")
    return ran.stdout.decode()


def repository(folder: Path, story: Story) -> Path:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    state = folder / ".git" / "orchconverge"
    state.mkdir(mode=0o700)
    (state / "ledger.jsonl").write_bytes(b"".join(encode(fact) for fact in story.facts))
    (state / "ledger.jsonl").chmod(0o600)
    return folder


def test_it_says_what_waits_in_the_glyphs_that_the_terminal_has(tmp_path: Path) -> None:
    story = Story().declare("mfa", criteria=(check("a"),), lock="person").start("mfa").check("mfa").begin("mfa")
    story.ended("mfa.1").candidate("mfa.1", met=["a"]).judge("mfa").stop("waiting", basin="mfa")
    story.declare("search", criteria=(check("a"),), target="other")
    here = repository(tmp_path, story)
    glyphs, plain = line(here), line(here, **POSIX)
    assert glyphs.startswith("◆1 ◷1 mfa.1 at the lock ")
    assert plain == glyphs.replace("◆", "!").replace("◷", "~")


@pytest.mark.parametrize("where", ["outside of a repository", "in one without goals", "where all is over"])
def test_it_is_empty_where_nothing_is_open(tmp_path: Path, where: str) -> None:
    if where != "outside of a repository":
        over = Story().declare("mfa", criteria=(check("a"),)).tell(BasinKilled(basin="mfa", reason="no use"))
        repository(tmp_path, over if where == "where all is over" else Story())
    assert line(tmp_path).strip() == ""
