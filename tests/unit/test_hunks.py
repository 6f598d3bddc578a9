"""Choosing of a diff hunk by hunk: what each answer takes, and that real git applies exactly what was chosen."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchconverge.cli.hunks import chosen, files, joined
from orchconverge.errors import Refused

DIFF = ("diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-color")
BASE = "".join(f"line {number}\n" for number in range(1, 61))


class Typed(io.StringIO):
    """A terminal on which these lines are typed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Answers, one a letter."""

    def type_(answers: str) -> None:
        monkeypatch.setattr(sys, "stdin", Typed("".join(f"{one}\n" for one in answers)))

    return type_


class Repo:
    """A repository in which two commits differ, and patches are applied to the first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, input: bytes | None = None) -> bytes:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root), "GIT_CONFIG_NOSYSTEM": "1"}
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.autocrlf=false")
        return subprocess.run(
            ["git", *who, *words], cwd=self.root, env=env, input=input, check=True, capture_output=True
        ).stdout

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD").decode().strip()

    def put(self, name: str, data: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())

    def diff(self, old: str, new: str) -> bytes:
        return self.git(*DIFF, old, new)

    def applied(self, base: str, patch: bytes) -> None:
        """As the graft does it."""
        self.git("checkout", "-q", "--detach", base)
        self.git("apply", "--3way", "--index", "--whitespace=nowarn", "-", input=patch)

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path)


def changed(lines: dict[int, str], text: str = BASE) -> str:
    """The text with these lines, from 1, in another wording; "" takes one away."""
    return "".join(lines.get(n, line) for n, line in enumerate(text.splitlines(keepends=True), 1))


def two(repo: Repo) -> tuple[str, str]:
    """One file with three hunks, another with one."""
    repo.put("a.txt", BASE)
    repo.put("b.txt", BASE)
    base = repo.commit()
    repo.put("a.txt", changed({3: "three\nand more\nand more\n", 30: "", 57: "fifty-seven\n"}))
    repo.put("b.txt", changed({10: "ten\n"}))
    return base, repo.commit()


@pytest.mark.parametrize(
    ("answers", "a", "b"),
    [
        ("yyyy", {3: "three\nand more\nand more\n", 30: "", 57: "fifty-seven\n"}, {10: "ten\n"}),
        ("nnyn", {57: "fifty-seven\n"}, {}),
        ("nyny", {30: ""}, {10: "ten\n"}),
        ("na" + "n", {30: "", 57: "fifty-seven\n"}, {}),
        ("yd" + "y", {3: "three\nand more\nand more\n"}, {10: "ten\n"}),
        ("yq", {3: "three\nand more\nand more\n"}, {}),
        ("Y?xnq", {3: "three\nand more\nand more\n"}, {}),
    ],
)
def test_each_answer_takes_what_it_says(
    repo: Repo, typed: Callable[[str], None], answers: str, a: dict[int, str], b: dict[int, str]
) -> None:
    base, head = two(repo)
    typed(answers)
    repo.applied(base, chosen(repo.diff(base, head)))
    assert repo.read("a.txt").decode() == changed(a)
    assert repo.read("b.txt").decode() == changed(b)


def test_where_lines_repeat_a_hunk_lands_where_it_was_made(repo: Repo, typed: Callable[[str], None]) -> None:
    same = "{\n    pass\n}\n" * 40
    repo.put("a.txt", same)
    base = repo.commit()
    repo.put("a.txt", "new\n" * 30 + changed({62: "    changed\n"}, same))
    head = repo.commit()
    typed("ny")
    repo.applied(base, chosen(repo.diff(base, head)))
    assert repo.read("a.txt").decode() == changed({62: "    changed\n"}, same)


def test_what_has_no_lines_is_taken_or_left_whole(repo: Repo, typed: Callable[[str], None]) -> None:
    repo.put("gone.txt", "x\n")
    repo.put("image", b"\0\1")
    base = repo.commit()
    (repo.root / "gone.txt").unlink()
    repo.put("image", b"\0\2" * 500)
    repo.put("new.txt", BASE)
    repo.put("empty", "")
    head = repo.commit()
    names = [file.name for file in files(repo.diff(base, head))]
    assert names == ["empty", "gone.txt", "image", "new.txt"]
    typed("yyyn")
    repo.applied(base, chosen(repo.diff(base, head)))
    assert repo.read("image") == b"\0\2" * 500
    assert not (repo.root / "gone.txt").exists()
    assert repo.read("empty") == b""
    assert not (repo.root / "new.txt").exists()


@pytest.mark.parametrize(
    ("answers", "mode", "text"),
    [
        ("yn", 0o755, BASE),
        ("ny", 0o644, changed({3: "3\n"})),
        ("yy", 0o755, changed({3: "3\n"})),
        ("a", 0o755, changed({3: "3\n"})),
    ],
)
def test_a_mode_is_asked_about_by_itself(
    repo: Repo, typed: Callable[[str], None], answers: str, mode: int, text: str
) -> None:
    repo.put("run", BASE)
    base = repo.commit()
    repo.put("run", changed({3: "3\n"}))
    (repo.root / "run").chmod(0o755)
    head = repo.commit()
    typed(answers)
    repo.applied(base, chosen(repo.diff(base, head)))
    assert (repo.root / "run").stat().st_mode & 0o777 & 0o755 == mode
    assert repo.read("run").decode() == text


def test_lines_that_look_like_a_diff_are_content(repo: Repo, typed: Callable[[str], None]) -> None:
    repo.put("a.diff", f"@@ -1 +1 @@\n{BASE}diff --git a/x b/x\n")
    base = repo.commit()
    repo.put("a.diff", f"@@ -2 +2 @@\n{BASE}diff --git a/y b/y\n")
    head = repo.commit()
    typed("ny")
    repo.applied(base, chosen(repo.diff(base, head)))
    assert repo.read("a.diff").decode() == f"@@ -1 +1 @@\n{BASE}diff --git a/y b/y\n"


def test_nothing_harmful_reaches_the_terminal(
    repo: Repo, typed: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    repo.put("a.txt", "x\n")
    base = repo.commit()
    repo.put("a.txt", "\x1b[2J\ttab\u202e\n")
    head = repo.commit()
    typed("y")
    taken = chosen(repo.diff(base, head))
    said = capsys.readouterr()
    assert "\x1b" not in said.err + said.out
    assert "+\ttab\n" in said.err
    assert b"\x1b[2J" in taken


def test_nothing_chosen_is_refused_for_no_hunks_must_not_mean_all(repo: Repo, typed: Callable[[str], None]) -> None:
    base, head = two(repo)
    for answers in ("q", "dd", "nnnn"):
        typed(answers)
        with pytest.raises(Refused, match="nothing was chosen"):
            chosen(repo.diff(base, head))


def test_without_a_terminal_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(Refused) as refused:
        chosen(b"")
    assert "--only PATH" in refused.value.hint


def by_hand(before: str, hunks: Sequence[bytes], wanted: Sequence[bool]) -> bytes:
    """The file once these hunks were put into it, each where its header says."""
    old, made, at = before.encode().splitlines(keepends=True), b"", 0
    for hunk, take in zip(hunks, wanted, strict=True):
        head, *lines = hunk.split(b"\n")
        first, _, count = head.split()[1][1:].partition(b",")
        size = int(count or 1)
        start = int(first) - (1 if size else 0)
        new = b""
        for line, after in zip(lines, [*lines[1:], b""], strict=True):
            if line[:1] in (b" ", b"+"):
                new += line[1:] + (b"" if after.startswith(b"\\") else b"\n")
        made += b"".join(old[at:start]) + (new if take else b"".join(old[start : start + size]))
        at = start + size
    return made + b"".join(old[at:])


LINE = st.sampled_from(["a\n", "b\n", "}\n", "\n", "word\n"])


@settings(max_examples=25, deadline=None)
@given(st.lists(LINE, min_size=20, max_size=60), st.data())
def test_whatever_is_chosen_git_takes_it_and_all_of_it_is_the_diff(
    tmp_path_factory: pytest.TempPathFactory, before: Sequence[str], data: st.DataObject
) -> None:
    repo = Repo(tmp_path_factory.mktemp("repo"))
    repo.put("a.txt", "".join(before))
    base = repo.commit()
    edits = data.draw(
        st.dictionaries(st.integers(1, len(before)), st.sampled_from(["", "new\n", "new\nnew\n"]), min_size=1)
    )
    end = data.draw(st.sampled_from(["", "no newline"]))
    repo.put("a.txt", changed(edits, "".join(before)) + end)
    head = repo.commit()
    diff = repo.diff(base, head)
    if not diff:
        return
    [file] = files(diff)
    wanted = [data.draw(st.booleans()) for _ in file.hunks]
    patch = joined(file, wanted)
    if any(wanted):
        repo.applied(base, patch)
        # Held against the file, not against another diff: of like lines git has more than one way to tell a change.
        tree = repo.git("write-tree").decode().strip()
        assert repo.git("show", f"{tree}:a.txt") == by_hand("".join(before), file.hunks, wanted)
    if all(wanted):
        assert repo.read("a.txt").decode() == changed(edits, "".join(before)) + end
