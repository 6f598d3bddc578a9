"""Attempts side by side: claimed lines, merges, the matrix; on real git, with everything that a repository can hold."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchconverge.adapters.git import Repository
from orchconverge.core import events as e
from orchconverge.core.fingerprints import blob
from orchconverge.core.matrix import Column, Matrix, contrast, matrix, waiting
from orchconverge.core.overlap import Claim, Ground, Lines, Merge, Overlap, Shared, both, overlap
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence
from orchconverge.core.views import compare as view
from orchconverge.errors import Failed, Refused
from orchconverge.ports import Git
from tests.fakes.git import MemoryGit, Store
from tests.stories import Story, check, sha

# --- lines -----------------------------------------------------------------------------------------------------------


def apart(ends: set[int], widths: list[bool]) -> tuple[Lines, ...]:
    """Ascending ranges that do not touch, as git tells them, out of any ends; narrow ones are gaps."""
    left, found = sorted(ends), []
    for wide in widths:
        if len(left) < 2:
            break
        after = left.pop(0)
        found.append(Lines(after, left.pop(0) if wide else after))
    return tuple(found)


CLAIMED = st.builds(apart, st.sets(st.integers(0, 60), max_size=16), st.lists(st.booleans(), max_size=12))


def gaps(claim: Iterable[Lines]) -> set[int]:
    """The places between lines that a claim covers, its ends included."""
    return {gap for lines in claim for gap in range(lines.after, lines.last + 1)}


@given(CLAIMED, CLAIMED)
def test_what_both_claim_is_the_same_from_either_side(one: tuple[Lines, ...], other: tuple[Lines, ...]) -> None:
    found = both(one, other)
    assert found == both(other, one)
    assert found is not None
    assert gaps(found) == gaps(one) & gaps(other)
    assert both(one, one) == one


@given(CLAIMED)
def test_who_claims_the_whole_file_claims_what_the_other_does(one: tuple[Lines, ...]) -> None:
    assert both(None, one) == both(one, None) == one
    assert both(None, None) is None


def ground(branch: str, *claims: Claim) -> Ground:
    return Ground(branch=branch, base=sha("base"), head=sha(branch), claims=claims)


def test_lines_of_different_contents_are_not_compared() -> None:
    here = ground("a.1", Claim("f", "blob", (Lines(0, 3),)), Claim("mine", "b", ()))
    moved = ground("a.2", Claim("f", "newer", (Lines(0, 3),)), Claim("yours", "b", ()))
    found = overlap("a", [here, moved], {("a.1", "a.2"): Merge(True)})
    assert found.pairs[0].shared == (Shared(path="f", claimed="unknown"),)
    assert [one.only for one in found.candidates] == [("mine",), ("yours",)]


# --- git -------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (folder / ".gitconfig").write_text("[user]\n\tname = a\n\temail = a@localhost\n[init]\n\tdefaultBranch = main\n")
    return folder


Files = Mapping[str, "str | bytes | None"]
NUMBERS = "".join(f"{number}\n" for number in range(1, 31))


def numbers(**changed: str) -> str:
    """Thirty lines, some of them changed: ``l3="three"``."""
    return "".join(f"{changed.get(f'l{number}', number)}\n" for number in range(1, 31))


class Bench:
    """A repository in which branches are made that all begin at ``base``; its path needs quoting."""

    def __init__(self, folder: Path, files: Files) -> None:
        self.root = folder / 'a:"b'
        self.root.mkdir()
        self("init", "--quiet")
        self.base = self.commit(files)
        self.git = Repository.open(self.root, trees=folder / "trees")

    def __call__(self, *args: str) -> str:
        done = subprocess.run(["git", "-C", str(self.root), *args], check=True, capture_output=True)
        return os.fsdecode(done.stdout).strip()

    def commit(self, files: Files) -> Sha:
        for name, text in files.items():
            path = self.root / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self("add", "--all")
        self("commit", "--quiet", "--allow-empty", "-m", "work")
        return Sha(self("rev-parse", "HEAD"))

    def branch(self, files: Files, *, at: Sha | None = None) -> Sha:
        self("checkout", "--quiet", "--detach", at or self.base)
        return self.commit(files)

    def overlap(self, *heads: Sha) -> Overlap:
        """What the command makes of these, called a.1, a.2 and so on."""
        names = [f"a.{number}" for number in range(1, len(heads) + 1)]
        claims = self.git.compare.claims([(self.base, head) for head in heads])
        grounds = [
            Ground(branch=name, base=self.base, head=head, claims=claim)
            for name, head, claim in zip(names, heads, claims, strict=True)
        ]
        merges = self.git.compare.merge_pairs(list(combinations(heads, 2)))
        return overlap("a", grounds, dict(zip(combinations(names, 2), merges, strict=True)))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, {"f": NUMBERS, "bin": b"\0a", "other": "x\n"})


def test_a_conflict_names_its_file_and_the_lines_that_both_changed(bench: Bench) -> None:
    one = bench.branch({"f": numbers(l3="a", l20="a"), "mine": "1\n"})
    two = bench.branch({"f": numbers(l3="b", l25="b"), "yours": "1\n"})
    three = bench.branch({"f": numbers(l10="c")})
    found = bench.overlap(one, two, three)
    conflict, *clean = found.pairs
    assert (conflict.merges, conflict.conflicts) == (False, ("f",))
    assert conflict.shared == (Shared(path="f", claimed="lines", lines=(Lines(2, 3),)),)
    assert [(pair.merges, pair.shared) for pair in clean] == [(True, (Shared(path="f", claimed="nothing"),))] * 2
    assert [(t.files, t.only) for t in found.candidates] == [(2, ("mine",)), (2, ("yours",)), (1, ())]


def test_an_insertion_claims_the_gap_that_it_fills(bench: Bench) -> None:
    lines = NUMBERS.splitlines(keepends=True)
    one = bench.branch({"f": "".join([*lines[:7], "new\n", *lines[7:]])})
    two = bench.branch({"f": "".join([*lines[:7], "other\n", *lines[7:]])})
    three = bench.branch({"f": numbers(l8="eight")})
    found = bench.overlap(one, two, three)
    assert [pair.shared[0].lines for pair in found.pairs] == [(Lines(7, 7),)] * 3
    assert [pair.merges for pair in found.pairs] == [False] * 3


def test_a_rename_claims_the_lines_that_it_changed_and_the_new_name(bench: Bench) -> None:
    moved = bench.branch({"f": None, "g": numbers(l5="five")})
    edited = bench.branch({"f": numbers(l6="six", l20="twenty")})
    named = bench.branch({"g": "mine\n"})
    found = bench.overlap(moved, edited, named)
    assert found.pairs[0].shared == (Shared(path="f", claimed="lines", lines=(Lines(5, 5),)),)
    assert (found.pairs[0].merges, found.pairs[0].conflicts) == (False, ("g",))
    assert found.pairs[1].shared == (Shared(path="g", claimed="whole"),)
    assert found.pairs[2].shared == ()
    [change] = bench.git.compare.difference(bench.base, moved, patch=False).changes
    assert (change.kind, change.old_path, change.path, change.added, change.removed) == ("R", "f", "g", 1, 1)


def test_a_deleted_file_against_a_changed_one(bench: Bench) -> None:
    gone = bench.branch({"f": None})
    edited = bench.branch({"f": numbers(l6="six")})
    [pair] = bench.overlap(gone, edited).pairs
    assert (pair.merges, pair.conflicts) == (False, ("f",))
    assert pair.shared == (Shared(path="f", claimed="lines", lines=(Lines(5, 6),)),)


def test_a_binary_file_is_claimed_whole(bench: Bench) -> None:
    [pair] = bench.overlap(bench.branch({"bin": b"\0b"}), bench.branch({"bin": b"\0c"})).pairs
    assert (pair.merges, pair.conflicts, pair.shared) == (False, ("bin",), (Shared(path="bin", claimed="whole"),))
    [change] = bench.git.compare.difference(bench.base, bench.branch({"bin": b"\0b"}), patch=False).changes
    assert (change.added, change.removed) == (None, None)


def test_a_mode_alone_claims_no_line(bench: Bench) -> None:
    (bench.root / "f").chmod(0o755)
    run = bench.commit({})
    [pair] = bench.overlap(run, bench.branch({"f": numbers(l6="six")})).pairs
    assert (pair.merges, pair.shared) == (True, (Shared(path="f", claimed="nothing"),))


def test_a_file_that_becomes_a_link_is_claimed_whole_and_what_follows_it_is_not_mixed_up(bench: Bench) -> None:
    (bench.root / "f").unlink()
    (bench.root / "f").symlink_to("other")
    link = bench.commit({"other": "x\ny\n"})
    [claims] = bench.git.compare.claims([(bench.base, link)])
    assert [(claim.path, claim.lines) for claim in claims] == [("f", None), ("other", (Lines(1, 1),))]


def test_a_submodule_is_claimed_whole(bench: Bench) -> None:
    bench("update-index", "--add", "--cacheinfo", f"160000,{bench.base},sub")
    bench("commit", "--quiet", "-m", "sub")
    base = Sha(bench("rev-parse", "HEAD"))
    bench("update-index", "--add", "--cacheinfo", f"160000,{base},sub")
    bench("commit", "--quiet", "-m", "sub")
    [claims] = bench.git.compare.claims([(base, Sha(bench("rev-parse", "HEAD")))])
    assert [(claim.path, claim.lines) for claim in claims] == [("sub", None)]


def test_a_file_that_collides_with_a_folder_is_named_as_it_is(bench: Bench) -> None:
    [pair] = bench.overlap(bench.branch({"new": "x\n"}), bench.branch({"new/file": "x\n"})).pairs
    assert (pair.merges, pair.conflicts) == (False, ("new",))


ODD = ["with space", "new\nline", "tab\there", 'dou"ble', "ünï", "-leading", "diff --git a", "\udcff", "~"]


def test_paths_of_every_kind_come_through(bench: Bench) -> None:
    base = bench.branch(dict.fromkeys(ODD, NUMBERS))
    bench.base = base
    one = bench.branch({name: numbers(l4="one") for name in ODD})
    two = bench.branch({name: numbers(l4="two") for name in ODD})
    [pair] = bench.overlap(one, two).pairs
    shown = sorted("\\xff" if name == "\udcff" else name for name in ODD)
    assert [file.path for file in pair.shared] == shown
    assert {file.lines for file in pair.shared} == {(Lines(3, 4),)}
    assert sorted(pair.conflicts) == shown
    found = bench.git.compare.difference(base, one, patch=True)
    assert sorted(change.path for change in found.changes) == shown
    assert found.patch.count("+one\n") == len(ODD)


def test_content_that_looks_like_a_patch_is_content(bench: Bench) -> None:
    fake = "diff --git a/f b/f\n@@ -9,9 +9 @@\n--- a/f\n"
    head = bench.branch({"f": NUMBERS + fake, "other": fake})
    [claims] = bench.git.compare.claims([(bench.base, head)])
    assert [(claim.path, claim.lines) for claim in claims] == [("f", (Lines(30, 30),)), ("other", (Lines(0, 1),))]


def test_a_persons_settings_change_no_answer(bench: Bench, home: Path) -> None:
    one = bench.branch({"f": numbers(l3="a", l6="a")})
    before = bench.git.compare.claims([(bench.base, one)]), bench.git.compare.difference(bench.base, one, patch=True)
    with (home / ".gitconfig").open("a") as file:
        file.write(
            "[diff]\n\tnoprefix = true\n\tmnemonicPrefix = true\n\trenames = false\n\tinterHunkContext = 9\n"
            "\tcontext = 9\n\texternal = false\n\tsubmodule = log\n[color]\n\tui = always\n\tdiff = always\n"
        )
    after = bench.git.compare.claims([(bench.base, one)]), bench.git.compare.difference(bench.base, one, patch=True)
    assert after == before


def test_what_cannot_be_merged_at_all_leaves_the_other_answers(bench: Bench) -> None:
    one, two = bench.branch({"f": numbers(l3="a")}), bench.branch({"f": numbers(l3="b")})
    bench("checkout", "--quiet", "--orphan", "alone")
    alone = bench.commit({"new": "x\n"})
    lost = Sha("7" * 40)
    pairs = [(one, two), (one, alone), (one, lost), (two, bench.base), (lost, lost), (alone, two), (one, two)]
    found = bench.git.compare.merge_pairs(pairs)
    assert [merge.clean for merge in found] == [False, None, None, True, None, None, False]
    assert bench.git.compare.fork(one, two) == bench.base
    assert bench.git.compare.fork(one, alone) is None
    with pytest.raises(Failed):
        bench.git.compare.claims([(bench.base, lost)])
    for odd in ("main", "--help", one[:10]):
        with pytest.raises(Refused):
            bench.git.compare.merge_pairs([(one, Sha(odd))])


def test_looking_leaves_nothing_in_the_repository(bench: Bench) -> None:
    heads = [bench.branch({"f": numbers(l3=f"n{number}")}) for number in range(4)]
    bench("gc", "--quiet")
    there = sorted((bench.root / ".git").rglob("*"))
    found = bench.overlap(*heads)
    assert not any(pair.merges for pair in found.pairs)
    assert sorted((bench.root / ".git").rglob("*")) == there


def test_commits_are_found_by_the_head_or_else_by_the_keep_ref(bench: Bench) -> None:
    one, two = bench.branch({"f": "1\n"}), bench.branch({"f": "2\n"})
    bench.git.keep("a.2", two)
    bench.git.keep("a.3", two)
    lost = Sha("7" * 40)
    heads = {"a.1": one, "a.2": None, "a.3": lost, "a.4": None, "a.5": lost}
    assert bench.git.compare.commits(heads) == {"a.1": one, "a.2": two, "a.3": two}


def test_whoever_conflicts_claims_common_ground_and_apart_is_clean(bench: Bench) -> None:
    """Random edits of one file, each two merged by git itself: our lines explain every conflict."""
    draw, heads = random.Random(7), []
    for _ in range(25):
        lines = NUMBERS.splitlines(keepends=True)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(lines))
            lines[at : at + draw.randint(0, 2)] = [f"{draw.randrange(99)} new\n"] * draw.randint(0, 2)
        heads.append(bench.branch({"f": "".join(lines)}))
    found = bench.overlap(*heads).pairs
    conflicts = [pair for pair in found if pair.merges is False]
    clean = [pair for pair in found if pair.merges]
    assert len(conflicts) > 20
    assert len(clean) > 20
    unexplained = [pair for pair in conflicts if not pair.contested]
    assert not unexplained
    close = [pair for pair in clean if pair.contested]
    assert len(close) < len(clean) / 2, "else the lines would say nothing"


@pytest.fixture(params=["git", "fake"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Git, Sha, Sequence[Sha]]:
    """A repository and three branches from one base: two change line 3, the third another file."""
    edits: list[dict[str, str]] = [{"f": numbers(l3="a")}, {"f": numbers(l3="b")}, {"new": "x\n"}]
    if request.param == "git":
        bench = Bench(tmp_path, {"f": NUMBERS})
        return bench.git, bench.base, [bench.branch(edit) for edit in edits]
    store = Store(tmp_path / "project", {"f": NUMBERS})
    git = MemoryGit(store, tmp_path / "trees")
    base = git.resolve("HEAD")
    assert base is not None
    made = [store.make({"f": NUMBERS, **edit}, parents=(base,), author="a", message="work") for edit in edits]
    return git, base, made


def test_the_fake_compares_as_git_does(either: tuple[Git, Sha, Sequence[Sha]]) -> None:
    git, base, (one, two, three) = either
    claims = git.compare.claims([(base, head) for head in (one, two, three)])
    assert [[(claim.path, claim.lines) for claim in found] for found in claims] == [
        [("f", (Lines(2, 3),))],
        [("f", (Lines(2, 3),))],
        [("new", None)],
    ]
    assert claims[0][0].blob == claims[1][0].blob
    assert claims[2][0].blob == ""
    assert git.compare.merge_pairs([(one, two), (one, three)]) == (Merge(False, ("f",)), Merge(True))
    assert git.compare.fork(one, two) == base
    [change] = git.compare.difference(base, one, patch=False).changes
    assert (change.kind, change.path, change.added, change.removed) == ("M", "f", 1, 1)
    assert "+a" in git.compare.difference(base, one, patch=True).patch
    git.keep("a.2", two)
    assert git.compare.commits({"a.1": one, "a.2": None, "a.3": None}) == {"a.1": one, "a.2": two}


# --- what changed files held -----------------------------------------------------------------------------------------


def test_contents_are_told_alike_by_git_and_by_the_fake(either: tuple[Git, Sha, Sequence[Sha]]) -> None:
    git, base, (one, _, three) = either
    trees = [(git.tree_of(base), git.tree_of(head)) for head in (one, three, base)]
    assert git.compare.contents(trees) == (
        {"f": (blob(NUMBERS.encode()), blob(numbers(l3="a").encode()))},
        {"new": (blob(None), blob(b"x\n"))},
        {},
    )
    assert git.compare.contents([]) == ()


def test_contents_of_odd_files(bench: Bench) -> None:
    """Names with newlines and bytes, links, large files, what goes, and a link to another repository, which is no file."""
    large = b"x" * ((1 << 20) + 1)
    odd = os.fsdecode(b"n\n\xff")
    bench("checkout", "--quiet", "--detach", bench.base)
    (bench.root / "link").symlink_to("f")
    head = bench.commit({odd: "1\n", "f": None, "large": large})
    bench("update-index", "--add", "--cacheinfo", f"160000,{bench.base},module")
    bench("commit", "--quiet", "-m", "module")
    head = Sha(bench("rev-parse", "HEAD"))
    git = bench.git
    [found] = git.compare.contents([(git.tree_of(bench.base), git.tree_of(head))])
    assert sorted(found) == ["f", "large", "link", "n\n\\xff"]
    assert found["f"][1] == found["large"][0] == blob(None)
    assert found["link"][1] == blob(b"f")
    assert found["large"][1].id == found["large"][1].ink != ""


def test_contents_of_a_tree_as_it_stands(bench: Bench) -> None:
    """What is committed, changed and new, not what is ignored; a link is what it says; a pipe is waited for by nobody."""
    bench("checkout", "--quiet", "--detach", bench.base)
    bench.commit({"made": "1\n", ".gitignore": "ignored\n"})
    (bench.root / "made").write_text("2\n")
    (bench.root / "f").unlink()
    (bench.root / "new").symlink_to("/etc/hostname")
    (bench.root / "ignored").write_text("x")
    os.mkfifo(bench.root / "pipe")
    found = bench.git.compare.contents_now(bench.root, bench.base)
    assert {path: now for path, (_, now) in found.items()} == {
        ".gitignore": blob(b"ignored\n"),
        "f": blob(None),
        "made": blob(b"2\n"),
        "new": blob(b"/etc/hostname"),
    }
    assert found["f"][0] == blob(NUMBERS.encode())
    assert bench("status", "--porcelain").count("made") == 1, "nothing was refreshed or added"


# --- the matrix ------------------------------------------------------------------------------------------------------

NAMES = ("c1", "c2", "c3", "c4", "c5")


def story(tip: Iterable[str], *minds: Iterable[str], names: Sequence[str] = NAMES) -> Story:
    """One wave of candidates that meet these, on a target whose tip meets those."""
    told = Story()
    told.declare("a", criteria=tuple(check(name) for name in names)).start("a").check("a", met=tip)
    told.begin("a", minds=len(minds))
    for number, held in enumerate(minds, 1):
        told.ended(f"a.{number}").candidate(f"a.{number}", met=held)
    return told


def columns(shown: Matrix) -> dict[str, Column]:
    return {column.branch: column for column in shown.columns}


HELD = st.sets(st.sampled_from(NAMES))


@settings(deadline=None)
@given(HELD, st.lists(HELD, min_size=1, max_size=9))
def test_marginal_gains_sum_to_the_union(tip: set[str], minds: list[set[str]]) -> None:
    shown = matrix(story(tip, *minds).state, "a")
    union = set().union(*minds) - tip
    marginal = [name for column in shown.columns for name in column.marginal]
    assert sorted(marginal) == sorted(union)
    sizes = [len(column.marginal) for column in shown.columns]
    assert sizes == sorted(sizes, reverse=True)
    assert set(shown.unmet) == set(NAMES) - tip - union
    held = {f"a.{number}": met for number, met in enumerate(minds, 1)}
    for place, column in enumerate(shown.columns):
        assert set(column.met) == held[column.branch]
        assert (set(column.gains), set(column.losses)) == (set(column.met) - tip, tip - set(column.met))
        before = {other.branch: held[other.branch] for other in shown.columns[:place]}
        covering = [name for name, met in before.items() if met >= held[column.branch]]
        assert column.dominated_by in covering if covering else column.dominated_by is None
        assert not (column.dominated_by and column.marginal)
    for row, cells in zip(shown.rows, zip(*(c.cells for c in shown.columns), strict=True), strict=True):
        meeting = sum(row.criterion in met for met in held.values())
        assert cells.count("only") == (meeting == 1 and row.criterion not in tip)
        assert cells.count("lost") == (len(minds) - meeting if row.criterion in tip else 0)


def test_rows_begin_with_what_is_not_met_and_most_branches_missed() -> None:
    told = story(["c1"], ["c1", "c2"], ["c1", "c3"], ["c1", "c2", "c3"])
    rows = matrix(told.state, "a").rows
    assert [(row.criterion, row.failures) for row in rows] == [("c4", 3), ("c5", 3), ("c2", 1), ("c3", 1), ("c1", 0)]
    assert [row.approaches for row in rows] == [1, 1, 1, 1, 0]
    assert [row.tip for row in rows] == ["unmet"] * 4 + ["met"]


def test_of_equal_candidates_the_one_that_changes_least_stands_for_the_rest() -> None:
    told = story([], ["c1", "c2"], ["c1", "c2"], ["c1", "c2"], ["c3"])
    covered = {name: column.dominated_by for name, column in columns(matrix(told.state, "a")).items()}
    assert covered == {"a.1": None, "a.2": "a.1", "a.3": "a.1", "a.4": None}, "the oldest, while nothing is known"
    measured = columns(matrix(told.state, "a", sizes={"a.1": 90, "a.2": 7, "a.4": 1}))
    assert {name: column.dominated_by for name, column in measured.items()} == {
        "a.2": None,
        "a.1": "a.2",
        "a.3": "a.2",
        "a.4": None,
    }
    assert [*measured] == ["a.2", "a.4", "a.1", "a.3"], "what is gained goes before what is small"


def test_branches_that_are_settled_count_as_missed_and_are_no_columns() -> None:
    told = story([], ["c1"], ["c2"], ["c1", "c2"])
    told.tell(e.BranchPruned(basin="a", branch="a.1", reason="smaller one waits", decidedBy="person"))
    shown = matrix(told.state, "a")
    assert [c.branch for c in shown.columns] == ["a.3", "a.2"] == [b.id for b in reversed(waiting(told.state, "a"))]
    assert {row.criterion: row.failures for row in shown.rows} == {"c1": 1, "c2": 1, "c3": 3, "c4": 3, "c5": 3}


def test_what_the_target_got_after_a_candidate_began_is_not_lost_by_it() -> None:
    told = Story()
    told.declare("a", criteria=tuple(check(name) for name in NAMES)).start("a")
    told.check("a", met=["c5"], head="base")  # `Story` has every branch begin there
    told.begin("a", minds=2)
    told.ended("a.1").candidate("a.1", met=["c1", "c5"]).ended("a.2").candidate("a.2", met=["c2"])
    told.graft("a.1", met=["c1", "c5"])
    [column] = matrix(told.state, "a").columns
    cells = dict(zip([row.criterion for row in matrix(told.state, "a").rows], column.cells, strict=True))
    assert column.losses == ("c5",)
    assert (cells["c1"], cells["c2"], cells["c5"]) == ("unmet", "only", "lost")


def test_no_answer_is_not_an_answer() -> None:
    told = story(["c1"])
    told.judge("a")
    told.begin("a")
    [*answers] = told.answers("a", ["c2"], "a.1")
    broken = [Evidence(criterion="c3", met="error", tree=sha("t")), *answers[:2]]
    told.ended("a.1")
    told.tell(
        e.BranchCandidate(basin="a", branch="a.1", head=sha("a.1"), summary="x", evidence=tuple(broken), commits=1)
    )
    shown = matrix(told.state, "a")
    cells = dict(zip([row.criterion for row in shown.rows], shown.columns[0].cells, strict=True))
    assert cells == {"c1": "lost", "c2": "only", "c3": "unknown", "c4": "unknown", "c5": "unknown"}
    assert {row.failures for row in shown.rows if row.criterion in ("c3", "c4")} == {0}


def test_more_passing_tests_are_a_gain() -> None:
    told = Story()
    told.declare("a", criteria=(check("tests"),)).start("a")
    one = Evidence(criterion="tests", met="no", tree=sha("t"), passed=("t::a",))
    told.tell(e.BasinChecked(basin="a", head=sha("h"), tree=sha("t"), results=(one,)))
    told.begin("a").ended("a.1")
    more = Evidence(criterion="tests", met="no", tree=sha("u"), passed=("t::a", "t::b"))
    told.tell(e.BranchCandidate(basin="a", branch="a.1", head=sha("x"), summary="x", evidence=(more,), commits=1))
    [column] = matrix(told.state, "a").columns
    assert (column.gains, column.marginal, column.met, column.cells) == (("tests",), ("tests",), (), ("unmet",))


def test_a_contrast_puts_each_criterion_in_one_place() -> None:
    def seen(**met: str) -> dict[str, Evidence]:
        return {name: Evidence(criterion=name, met=answer, tree=sha("t")) for name, answer in met.items()}  # type: ignore[arg-type]

    found = contrast(
        [*"abcdef", "a"],
        seen(a="yes", b="no", c="yes", d="unstable", e="error"),
        seen(a="no", b="yes", c="yes", d="no", e="yes"),
    )
    assert (found.one, found.other, found.both, found.neither, found.unknown) == (
        ("a",),
        ("b",),
        ("c",),
        ("d",),
        ("e", "f"),
    )
    assert contrast(["a"], None, seen(a="yes")).unknown == ("a",)


# --- as text ---------------------------------------------------------------------------------------------------------


def test_a_matrix_as_text() -> None:
    told = story(["c1", "c5"], ["c1", "c2"], ["c1", "c2", "c3", "c5"], ["c1", "c5"])
    assert (
        view.matrix(matrix(told.state, "a"), ascii=True)
        == f"""\
MATRIX  a  into auth-branch at {sha("tip3"):.7}  2/5 met, 3 candidates

                      tip    .2     .3     .1
c4                    -      -      -      -
c3                    -      1      -      -
c2                    -      +      -      +
c5                    #      #      #      !
c1                    #      #      #      #
gains                        +2     +0     +1
loses                        -0     -0     -1
adds to those before         +2     +0     +0

# met on the tip too  + met here, not on the tip  1 met by this one only  - not met  ! lost
Still unmet: c4 (not met by 3 branches, 1 approach)"""
    )


def test_beyond_four_columns_only_what_adds_something_is_shown() -> None:
    told = story([], ["c1"], ["c2"], ["c3"], ["c4"], ["c5"], ["c1"], *[["c2"]] * 20)
    text = view.matrix(matrix(told.state, "a"))
    head = next(line for line in text.splitlines() if "tip" in line and "." in line)
    assert head.split() == ["tip", ".1", ".2", ".3", ".4", ".5"]
    assert "◈" in text.split("adds to those before")[0]
    assert "a.6 is dominated by a.1, which meets all that it meets\n" in text
    assert text.count("is dominated by a.2") == 7
    assert text.endswith("\n13 more add nothing to the columns shown")


def test_who_is_covered_by_several_but_by_none_alone_is_said_to_add_nothing() -> None:
    told = story([], ["c1", "c2"], ["c3", "c4"], ["c5"], ["c1"], ["c2", "c3"])
    text = view.matrix(matrix(told.state, "a"))
    assert "\na.4 is dominated by a.1, which meets all that it meets, and c2" in text
    assert "a.5 adds" not in text, "it is among the first four"
    assert [c.dominated_by for c in matrix(told.state, "a").columns] == [None, None, None, None, "a.1"]


def test_a_matrix_of_nothing_says_so() -> None:
    told = Story().declare("a", criteria=(check("c1"),))
    text = view.matrix(matrix(told.state, "a"), ascii=True)
    assert text.splitlines()[0] == "MATRIX  a  into auth-branch, not checked yet  0/1 met, 0 candidates"
    assert text.endswith("Still unmet: c1")


def test_an_overlap_as_text_is_harmless() -> None:
    evil = "evil\x1b[2J\nname"
    one = ground("a.1", Claim(evil, "b", (Lines(2, 9), Lines(20, 20))), Claim("new", "", None), Claim("m", "1", ()))
    two = ground("a.2", Claim(evil, "b", (Lines(4, 5), Lines(20, 22))), Claim("new", "", None), Claim("m", "2", ()))
    three = ground("a.3", Claim("alone", "c", ()))
    merges = {("a.1", "a.2"): Merge(False, (evil,)), ("a.1", "a.3"): Merge(True), ("a.2", "a.3"): Merge(None)}
    assert (
        view.overlap(overlap("a", [one, two, three], merges))
        == """\
OVERLAP  a  3 candidates, 3 pairs, 1 merge clean, 1 conflict, 1 cannot be told

a.1 a.2  conflict in evil name
  same lines  evil name: 5, after 20
  same lines  new: the whole file
  same files, begun from different contents  m

a.2 a.3  cannot be told

Clean, with no common line: 1 pair.

Files that no other touches:
  a.1  0 of 3 files
  a.2  0 of 3 files
  a.3  1 of 1 file  alone"""
    )
