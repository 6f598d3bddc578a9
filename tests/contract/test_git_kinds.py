"""Kinds of repositories that are real and awkward: submodules, filters, linked and bare, each through a mind's whole round."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchconverge.adapters.git import Repository
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused

PERSON = "[user]\n\tname = Ann Person\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
FILES = ("-c", "protocol.file.allow=always")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (folder / ".gitconfig").write_text(PERSON)
    return folder


def by_hand(cwd: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", str(cwd), *args], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return os.fsdecode(done.stdout).strip()


def commit(tree: Path, message: str = "work", **files: str) -> Sha:
    for name, text in files.items():
        (tree / name).write_text(text)
    by_hand(tree, "add", "--all")
    by_hand(tree, "commit", "--quiet", "--allow-empty", "-m", message)
    return Sha(by_hand(tree, "rev-parse", "HEAD"))


def made(path: Path, **files: str) -> Path:
    path.mkdir()
    by_hand(path, "init", "--quiet")
    commit(path, "start", **files)
    return path


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trees"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made(tmp_path / "project", a="one\n")


def base_of(repo: Repository) -> Sha:
    found = repo.resolve("refs/heads/main")
    assert found is not None
    return found


# --- submodules ------------------------------------------------------------------------------------------------------

LIB = "vendor/lib"
NAME = "a=b c"


@pytest.fixture
def upstreams(tmp_path: Path) -> tuple[Path, Path]:
    """The repositories behind the submodules: `lib`, which has `inner` in turn."""
    inner, lib = made(tmp_path / "inner", i="i\n"), made(tmp_path / "lib", l="l\n")
    by_hand(lib, *FILES, "submodule", "--quiet", "add", str(inner), "deep/in")
    commit(lib, "with inner")
    return inner, lib


@pytest.fixture
def super_root(root: Path, upstreams: tuple[Path, Path]) -> Path:
    """A repository with a filled submodule of an odd name and a nested one, whose upstreams are gone since."""
    inner, lib = upstreams
    by_hand(root, *FILES, "submodule", "--quiet", "add", "--name", NAME, str(lib), LIB)
    by_hand(root, *FILES, "submodule", "--quiet", "update", "--init", "--recursive")
    commit(root, "with lib")
    for gone in (inner, lib):
        gone.rename(gone.with_suffix(".gone"))
    return root


def filled(repo: Repository, tree: Path, at: Sha, *, branch: str = "m") -> tuple[str, ...]:
    repo.add_worktree(tree, branch=branch, at=at)
    return repo.fill(tree)


def test_submodules_come_from_the_callers_own_stores_and_its_settings_stay(super_root: Path, trees: Path) -> None:
    repo, m = Repository.open(super_root, trees=trees), trees / "m"
    config, before = (super_root / ".git" / "config").read_bytes(), repo.fingerprint()
    upstream = by_hand(super_root, "config", f"submodule.{NAME}.url")
    assert filled(repo, m, base_of(repo)) == ()
    assert (m / LIB / "l").read_text() == "l\n"
    assert (m / LIB / "deep/in/i").read_text() == "i\n"
    assert (super_root / ".git" / "config").read_bytes() == config
    assert repo.fingerprint() == before
    assert by_hand(m / LIB, "remote", "get-url", "origin") == upstream
    assert (repo.checkout(m).dirty, repo.checkout(m).untracked) == ((), ())
    assert repo.nested(m) == ()


def test_a_filled_submodule_is_left_as_it_is_when_asked_again(super_root: Path, trees: Path) -> None:
    repo, m = Repository.open(super_root, trees=trees), trees / "m"
    filled(repo, m, base_of(repo))
    head = commit(m / LIB, l="a mind's\n")
    (m / LIB / "deep/in/i").write_text("not committed\n")
    assert repo.fill(m) == ()
    assert by_hand(m / LIB, "rev-parse", "HEAD") == head
    assert (m / LIB / "deep/in/i").read_text() == "not committed\n"
    assert LIB in repo.nested(m)  # and that is work which is nowhere else


def test_a_commit_that_no_branch_of_the_store_reaches_is_filled_and_is_nobodys_work(
    super_root: Path, trees: Path
) -> None:
    by_hand(super_root / LIB, "checkout", "--quiet", "--detach")
    lost = commit(super_root / LIB, l="on no branch\n")
    bumped = commit(super_root, "bump")
    by_hand(super_root / LIB, "checkout", "--quiet", "main")
    repo, m = Repository.open(super_root, trees=trees), trees / "m"
    assert filled(repo, m, bumped) == ()
    assert by_hand(m / LIB, "rev-parse", "HEAD") == lost
    assert repo.nested(m) == ()


def test_what_a_person_did_not_initialise_stays_empty_and_is_not_said(super_root: Path, trees: Path) -> None:
    by_hand(super_root, "submodule", "--quiet", "deinit", "--force", LIB)
    repo, m = Repository.open(super_root, trees=trees), trees / "m"
    assert filled(repo, m, base_of(repo)) == ()
    assert list((m / LIB).iterdir()) == []


def test_a_submodule_whose_commit_is_not_here_stays_empty_and_is_said(super_root: Path, trees: Path) -> None:
    by_hand(super_root, "update-index", "--cacheinfo", f"160000,{'1' * 40},{LIB}")
    by_hand(super_root, "commit", "--quiet", "-m", "points nowhere")
    repo, m = Repository.open(super_root, trees=trees), trees / "m"
    assert filled(repo, m, base_of(repo)) == (f"{LIB}: this repository does not have its commit 11111111",)
    assert repo.checkout(m).dirty == ()
    repo.remove_worktree(m)


def test_a_submodule_that_cannot_be_checked_out_stays_empty_for_git(super_root: Path, trees: Path, home: Path) -> None:
    (super_root / LIB / ".gitattributes").write_text("l filter=gone\n")
    commit(super_root / LIB)
    bumped = commit(super_root, "with a filter")
    (home / ".gitconfig").write_text(f'{PERSON}[filter "gone"]\n\tsmudge = /no/such/filter\n\trequired = true\n')
    repo, m = Repository.open(super_root, trees=trees), trees / "m"
    [said] = filled(repo, m, bumped)
    assert said.startswith(f"{LIB}: ")
    commit(m, b="b")
    assert by_hand(m, "diff", "--name-only", bumped) == "b"
    assert repo.nested(m) == ()
    assert repo.fill(m) == ()  # a resume asks again
    repo.remove_worktree(m)


@pytest.mark.parametrize("killed", ["before it was whole", "while it was cloned"])
def test_a_submodule_that_a_kill_left_half_filled_is_refused_and_the_tree_is_made_again(
    super_root: Path, trees: Path, killed: str
) -> None:
    repo, m = Repository.open(super_root, trees=trees), trees / "m"
    filled(repo, m, base_of(repo))
    own = super_root / ".git/worktrees/m/modules" / NAME
    if killed == "while it was cloned":
        (m / LIB / ".git").unlink()
        (own / "HEAD").unlink()
    else:
        by_hand(own, "update-ref", "-d", "refs/orchconverge/filled")
    with pytest.raises(Refused, match="filled half"):
        repo.fill(m)
    repo.remove_worktree(m)
    assert filled(repo, m, base_of(repo)) == ()
    assert (m / LIB / "deep/in/i").exists()


def test_a_caller_in_a_linked_worktree_fills_from_what_it_has_there(super_root: Path, trees: Path) -> None:
    linked = super_root.parent / "linked"
    by_hand(super_root, "worktree", "add", "--quiet", "-b", "other", str(linked))
    gone = super_root.parent / "lib.gone"
    gone.rename(super_root.parent / "lib")
    by_hand(linked, *FILES, "submodule", "--quiet", "update", LIB)
    (super_root.parent / "lib").rename(gone)
    commit(linked / LIB, l="there alone\n")
    bumped = commit(linked, "bump")
    repo, m = Repository.open(linked, trees=trees), trees / "m"
    assert filled(repo, m, bumped) == ()
    assert (m / LIB / "l").read_text() == "there alone\n"
    assert (m / LIB / "deep/in/i").exists() is False  # the caller has not initialised it there


def test_a_submodule_with_its_git_directory_inside_is_filled_too(root: Path, trees: Path) -> None:
    made(root / "lib", l="l\n")
    by_hand(root, *FILES, "submodule", "--quiet", "add", "./lib", "lib")
    commit(root, "with lib")
    assert (root / "lib" / ".git").is_dir()
    repo, m = Repository.open(root, trees=trees), trees / "m"
    assert filled(repo, m, base_of(repo)) == ()
    assert (m / "lib" / "l").read_text() == "l\n"


@pytest.mark.parametrize("name", ["../../../escape", "x/../../../../escape"])
def test_a_submodule_whose_name_leads_elsewhere_is_none(super_root: Path, trees: Path, name: str) -> None:
    listing = super_root / ".gitmodules"
    listing.write_text(listing.read_text().replace(NAME, name))
    by_hand(super_root, "config", f"submodule.{name}.url", str(super_root))
    head = commit(super_root, "evil")
    repo, m = Repository.open(super_root, trees=trees), trees / "m"
    assert filled(repo, m, head) == ()
    assert list((m / LIB).iterdir()) == []
    assert not list(super_root.parent.rglob("escape"))


def test_b135_a_tree_with_filled_submodules_is_removed_whole(super_root: Path, trees: Path) -> None:
    """Exit 128, and the disk leaked."""
    repo, m = Repository.open(super_root, trees=trees), trees / "m"
    filled(repo, m, base_of(repo))
    (m / LIB / "deep/in/new").write_text("untracked, two levels down")
    repo.remove_worktree(m)
    assert not m.exists()
    assert list((super_root / ".git" / "worktrees").glob("*")) == []
    assert (super_root / LIB / "deep/in/i").exists()
    assert (super_root / ".git" / "modules" / NAME / "modules" / "deep/in" / "HEAD").exists()


# --- filters ---------------------------------------------------------------------------------------------------------

SUMS = """#!/bin/sh
# as a large-file filter: the repository has a pointer, the working tree the file
store="$2"; mkdir -p "$store"
if [ "$1" = clean ]; then
    cat > "$store/tmp.$$"; sum=$(sha256sum < "$store/tmp.$$" | cut -c1-64)
    mv "$store/tmp.$$" "$store/$sum"; echo "pointer $sum"
else
    read -r word sum; [ "$word" = pointer ] && [ -f "$store/$sum" ] || exit 1
    cat "$store/$sum"
fi
"""


def large_files(root: Path, *, program: bool = True, required: bool = True) -> None:
    """Let *.bin be kept elsewhere, as large files are."""
    tool, store = root.parent / "sums", root.parent / "large"
    if program:
        tool.write_text(SUMS)
        tool.chmod(0o755)
    for way in ("clean", "smudge"):
        by_hand(root, "config", f"filter.sums.{way}", f"'{tool}' {way} '{store}'")
    by_hand(root, "config", "filter.sums.required", str(required).lower())


@pytest.fixture
def with_large(root: Path) -> Path:
    large_files(root)
    (root / ".gitattributes").write_text("*.bin filter=sums -text\n")
    commit(root, "a large file", **{"one.bin": "large\n"})
    assert by_hand(root, "cat-file", "-p", "HEAD:one.bin").startswith("pointer ")
    return root


def test_large_files_are_whole_in_a_minds_tree_and_pointers_in_what_is_grafted(with_large: Path, trees: Path) -> None:
    repo, m = Repository.open(with_large, trees=trees), trees / "m"
    base = base_of(repo)
    repo.add_worktree(m, branch="m", at=base)
    assert (m / "one.bin").read_text() == "large\n"
    assert repo.checkout(m).dirty == ()
    (m / "two.bin").write_text("left\n")
    kept = repo.snapshot(m, "m.1")
    assert by_hand(with_large, "cat-file", "-p", f"{kept}:two.bin").startswith("pointer ")
    head = commit(m, **{"one.bin": "larger\n"})
    squash = repo.squash(trees / "q", tip=base, head=head)
    assert squash.tree == repo.tree_of(head)
    graft = repo.commit_tree(squash.tree, parent=base, message="graft")
    assert repo.advance("main", new=graft, old=base)
    assert (with_large / "one.bin").read_text() == "larger\n"
    assert repo.checkout(with_large).dirty == ()


def test_a_filter_whose_program_is_missing_leaves_pointers(with_large: Path, trees: Path) -> None:
    (with_large.parent / "sums").unlink()
    large_files(with_large, program=False, required=False)
    repo, m = Repository.open(with_large, trees=trees), trees / "m"
    repo.add_worktree(m, branch="m", at=base_of(repo))
    assert (m / "one.bin").read_text().startswith("pointer ")
    assert repo.checkout(m).dirty == ()
    head = commit(m, b="b")
    assert repo.squash(trees / "q", tip=base_of(repo), head=head).tree == repo.tree_of(head)


def test_a_required_filter_whose_program_is_missing_is_named_and_leaves_nothing(with_large: Path, trees: Path) -> None:
    (with_large.parent / "sums").unlink()
    repo, m = Repository.open(with_large, trees=trees), trees / "m"
    with pytest.raises(Failed, match=r"one\.bin: smudge filter sums failed"):
        repo.add_worktree(m, branch="m", at=base_of(repo))
    assert not m.exists()
    assert repo.resolve("refs/heads/m") is None
    large_files(with_large)
    repo.add_worktree(m, branch="m", at=base_of(repo))
    assert (m / "one.bin").read_text() == "large\n"


# --- working trees ---------------------------------------------------------------------------------------------------


def round_trip(repo: Repository, trees: Path) -> Sha:
    """A mind's commit, its graft into main, and our report on it, by adapter calls alone; the report's commit."""
    base, m = base_of(repo), trees / "m"
    repo.add_worktree(m, branch="m", at=base)
    (m / "new.txt").write_text("new\n")
    assert repo.snapshot(m, "m.1") is not None
    repo.run(["add", "--sparse", "new.txt"], cwd=m)
    repo.run(["commit", "--quiet", "-m", "mind"], cwd=m)
    head = repo.checkout(m).head
    assert head is not None
    assert repo.work(base, head).changed == ("new.txt",)
    squash = repo.squash(trees / "q", tip=base, head=head)
    assert squash.tree is not None
    graft = repo.commit_tree(squash.tree, parent=base, message=f"graft\n\nOrchconverge-Head: {head}")
    assert repo.advance("main", new=graft, old=base)
    report = repo.commit_file("main", "docs/report.md", "# report\n", "report")
    assert repo.work(base, report).changed == ("docs/report.md", "new.txt")
    for name in ("m", "q"):
        repo.remove_worktree(trees / name)
    return report


SETTINGS = {
    "diff.external": ("diff.external", "false"),
    "conflict style": ("merge.conflictStyle", "zdiff3"),
    "rerere": ("rerere.enabled", "true"),
    "default branch": ("init.defaultBranch", "trunk"),
    "push.default": ("push.default", "nothing"),
    "fsmonitor": ("core.fsmonitor", "true"),
    "untracked cache": ("core.untrackedCache", "true"),
    "attributes of its own": ("core.attributesFile", "/no/such/file"),
    "submodules at once": ("submodule.recurse", "true"),
    "an index of version 4": ("index.version", "4"),
    "no reflogs": ("core.logAllRefUpdates", "false"),
    "big files from the first byte": ("core.bigFileThreshold", "1"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_round_goes_through_whatever_is_set(root: Path, trees: Path, name: str) -> None:
    by_hand(root, "config", *SETTINGS[name])
    round_trip(Repository.open(root, trees=trees), trees)
    assert by_hand(root, "status", "--porcelain") == ""


def test_a_conflict_is_told_and_never_resolved_by_what_was_recorded(root: Path, trees: Path) -> None:
    """`rerere` would take a person's old resolution, unseen."""
    for key, value in (("rerere.enabled", "true"), ("rerere.autoUpdate", "true"), ("merge.conflictStyle", "zdiff3")):
        by_hand(root, "config", key, value)
    repo = Repository.open(root, trees=trees)
    base = base_of(repo)
    repo.add_worktree(trees / "m", branch="m", at=base)
    head, tip = commit(trees / "m", a="mind\n"), commit(root, a="person\n")
    subprocess.run(["git", "-C", str(root), "merge", "-q", "m"], check=False, capture_output=True)
    commit(root, "resolved", a="both\n")
    assert list((root / ".git" / "rr-cache").glob("*/postimage"))
    assert repo.squash(trees / "q", tip=tip, head=head).conflicts == ("a",)


def test_a_sparse_checkout_stays_sparse_and_what_is_outside_of_it_is_grafted_too(root: Path, trees: Path) -> None:
    for folder in ("in", "out"):
        (root / folder).mkdir()
        (root / folder / "f").write_text("f\n")
    commit(root, "folders")
    by_hand(root, "sparse-checkout", "set", "--cone", "in")
    assert not (root / "out").exists()
    repo = Repository.open(root, trees=trees)
    before = repo.fingerprint()
    report = round_trip(repo, trees)
    assert by_hand(root, "ls-tree", "-r", "--name-only", report).split() == [
        "a",
        "docs/report.md",
        "in/f",
        "new.txt",
        "out/f",
    ]
    assert not (root / "out").exists()
    assert by_hand(root, "status", "--porcelain") == ""
    assert repo.fingerprint() == before
    repo.add_worktree(trees / "t", branch=None, at=report)
    (trees / "t" / "in" / "f").write_text("changed\n")
    assert repo.checkout(trees / "t").dirty == ("in/f",)


def test_a_bare_repository_with_linked_worktrees_works_from_one_of_them(root: Path, trees: Path) -> None:
    bare = root.parent / "bare.git"
    by_hand(root, "clone", "--quiet", "--bare", str(root), str(bare))
    linked, other = root.parent / "linked", root.parent / "other"
    by_hand(bare, "worktree", "add", "--quiet", str(linked), "main")
    by_hand(bare, "worktree", "add", "--quiet", "-b", "other", str(other))
    repo = Repository.open(linked, trees=trees)
    assert repo.common_dir == bare
    round_trip(repo, trees)
    assert by_hand(linked, "status", "--porcelain") == ""
    assert (linked / "new.txt").exists()
    assert repo.checked_out_at("other") == other
    with pytest.raises(Refused):
        repo.remove_worktree(other)
    with pytest.raises(Refused, match="bare"):
        Repository.open(bare, trees=trees)
