"""Runs in worktrees of real, awkward repositories, and what of a person's or a mind's comes out of them untouched."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import Lab, meets, met, mind

pytestmark = pytest.mark.tmux

FILES = ("-c", "protocol.file.allow=always")
LIB = "vendor/lib"
CONVERGED, REFUSED, LIMIT, PERSON = 0, 2, 3, 5


def drive(
    lab: Lab,
    text: str,
    *more: str,
    code: int | None = CONVERGED,
    attempts: int = 1,
    place: str = "--worktree",
    cwd: Path | None = None,
) -> str:
    """Run a goal in worktrees and in the foreground, its minds this shell script; what it said on stderr."""
    path = lab.root / "mind.sh"
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    given = ["--engine", "command", "--argv", str(path), "--interval", "0", "--max-attempts", str(attempts)]
    given += [] if "--final" in more else ["--final", "none"]
    return lab.run("goal", place, "--foreground", *given, *more, code=code, cwd=cwd).stderr


DONE = "echo yes > a.txt; git add a.txt; git commit -q -m a || exit 1\n"


def journal(lab: Lab) -> list[str]:
    return (lab.state_dir / "logs" / "system.log").read_text().splitlines()


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# --- submodules ------------------------------------------------------------------------------------------------------


def upstream(lab: Lab, name: str, *, inner: Path | None = None) -> Path:
    """A repository to be had as a submodule, with a file and perhaps a submodule of its own."""
    path = lab.root / name
    lab.git("init", "-q", "-b", "main", str(path), cwd=lab.root)
    (path / "file").write_text(f"{name}\n")
    if inner is not None:
        lab.git(*FILES, "submodule", "--quiet", "add", str(inner), "inner", cwd=path)
    lab.git("add", "-A", cwd=path)
    lab.git("commit", "-q", "-m", name, cwd=path)
    return path


@pytest.fixture
def modular(lab: Lab) -> Lab:
    """The lab with a filled submodule and one inside that; both upstreams are gone since."""
    inner = upstream(lab, "in")
    gone = [inner, upstream(lab, "lib", inner=inner)]
    lab.git(*FILES, "submodule", "--quiet", "add", str(gone[1]), LIB)
    lab.git(*FILES, "submodule", "--quiet", "update", "--init", "--recursive")
    lab.git("commit", "-q", "-am", "with lib")
    lab.git("push", "-q")
    for path in gone:
        path.rename(path.with_suffix(".gone"))
    return lab


def test_submodules_are_there_for_minds_and_checks_without_network_and_a_missing_one_is_said(modular: Lab) -> None:
    lab = modular
    lab.git(*FILES, "submodule", "--quiet", "add", str(upstream(lab, "other")), "other")
    lab.git("update-index", "--cacheinfo", f"160000,{'1' * 40},other")
    lab.git("commit", "-q", "-m", "other points nowhere")
    config = (lab.repo / ".git" / "config").read_bytes()
    whole = f"grep -q in {LIB}/inner/file && grep -q lib {LIB}/file"
    text = f'{whole} || exit 9\necho "$ORCHCONVERGE_PORTS" > {lab.tmp}/ports\n'
    drive(lab, f"{text}{DONE}", "--criterion", f"a=grep -q yes a.txt && {whole}")
    [landed] = lab.facts(e.BranchGrafted)
    assert lab.git("diff", "--name-only", f"{landed.mergeCommit}~1", landed.mergeCommit) == "a.txt"
    assert (lab.repo / ".git" / "config").read_bytes() == config
    said = [line for line in journal(lab) if "a submodule stays empty" in line]
    assert len(said) >= 2  # of the mind's tree, and of one that was checked
    assert all("other: this repository does not have its commit 11111111" in line for line in said)
    first, last = map(int, (lab.tmp / "ports").read_text().split("-"))
    assert (last - first, first > 20_000) == (9, True)
    assert lab.worktrees() == []
    assert list((lab.repo / ".git" / "worktrees").glob("*")) == []


def test_b136_a_commit_that_only_a_minds_own_submodule_has_is_flagged_and_kept(modular: Lab) -> None:
    """A pointer to a commit that nobody has, and "success"."""
    lab = modular
    lab.keeps_worktrees = True
    inside = f"cd {LIB}; echo more >> file; git commit -q -am inside; cd ../..; git add {LIB}; {DONE}"
    said = drive(lab, inside, *met("a"), code=PERSON)
    assert f"flagged commit of another repository: {LIB}" in said
    assert lab.facts(e.BranchGrafted) == []
    tree = Path(lab.facts(e.BranchSpawned)[0].worktree)
    lab.run("--stop", "--cleanup", code=0)
    assert lab.git("log", "-1", "--format=%s", cwd=tree / LIB) == "inside"
    assert any("work that is nowhere else" in line and LIB in line for line in journal(lab))


# --- filters ---------------------------------------------------------------------------------------------------------

LARGE = """store="$2"
if [ "$1" = clean ]; then
    cat > "$store/new.$$"; sum=$(sha256sum < "$store/new.$$" | cut -c1-64)
    mv "$store/new.$$" "$store/$sum"; echo "pointer $sum"
else
    read -r word sum; [ "$word" = pointer ] && cat "$store/$sum"
fi"""


@pytest.fixture
def large(lab: Lab) -> Lab:
    """The lab with a file that the repository has a pointer to, by a filter that is required."""
    store = lab.root / "large"
    store.mkdir()
    tool = script(lab.root / "large.sh", LARGE)
    for way in ("clean", "smudge"):
        lab.git("config", f"filter.large.{way}", f"{tool} {way} {store}")
    lab.git("config", "filter.large.required", "true")
    (lab.repo / ".gitattributes").write_text("*.bin filter=large -text\n")
    (lab.repo / "one.bin").write_text("one\n")
    os.utime(lab.repo / "one.bin", (1_600_000_000, 1_600_000_000))  # so old that git need not look into it again
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "a large file")
    return lab


def test_large_files_are_whole_for_minds_and_checks_and_pointers_on_the_target(large: Lab) -> None:
    text = f"grep -q one one.bin || exit 9\necho two > two.bin; git add two.bin; {DONE}"
    drive(large, text, "--criterion", "a=grep -q yes a.txt && grep -q one one.bin && grep -q two two.bin")
    [landed] = large.facts(e.BranchGrafted)
    assert large.git("cat-file", "-p", f"{landed.mergeCommit}:two.bin").startswith("pointer ")


@pytest.mark.slow
def test_a_required_filter_whose_program_is_missing_is_named_and_a_resume_goes_on_once_it_is_there(large: Lab) -> None:
    tool = large.root / "large.sh"
    tool.rename(tool.with_suffix(".away"))
    large.play("goal", large.script(mind(*meets("a"))), *met("a"), "--worktree", "--final", "none")
    said = "git worktree add: fatal: one.bin: smudge filter large failed"
    large.until(lambda: any(said in line for line in journal(large)))
    large.run("--stop", code=0)
    assert large.worktrees() == []
    tool.with_suffix(".away").rename(tool)
    large.run("--resume", code=0)
    large.wait()


# --- hooks -----------------------------------------------------------------------------------------------------------

HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-merge-commit", "post-merge", "pre-push"),
    *("post-checkout", "post-rewrite", "pre-rebase", "reference-transaction", "post-index-change"),
)


def test_hooks_that_hang_hold_up_neither_our_trees_nor_grafts_nor_pushes(lab: Lab) -> None:
    for name in HOOKS:
        script(lab.repo / ".git" / "hooks" / name, '[ -n "$ORCHCONVERGE_BRIEF" ] || exec sleep 1000')
    drive(lab, DONE, *met("a"), "--final", "push")
    assert lab.reports("orchconverge/goal")


def test_b115_what_a_hook_says_to_a_minds_commit_is_told_to_the_next_one(lab: Lab) -> None:
    """HEAD did not change, and it was a success."""
    hook = 'case $(git diff --cached --name-only) in bad) echo "lint: bad is not wanted" >&2; exit 1;; esac'
    script(lab.repo / ".git" / "hooks" / "pre-commit", hook)
    text = f"cat > {lab.tmp}/brief\nif grep -q 'lint: bad is not wanted' {lab.tmp}/brief; then {DONE}exit 0; fi\n"
    drive(lab, f"{text}touch bad; git add bad; git commit -q -m bad\n", *met("a"), attempts=2)
    assert [fact.result for fact in lab.facts(e.AttemptEnded)] == ["failed", "success"]
    [failed] = lab.facts(e.BranchFailed)
    assert failed.reason.startswith("committed nothing, exit 1; what it left uncommitted is kept: bad")
    assert "lint: bad is not wanted" in failed.reason


def test_a_hook_that_hangs_in_a_mind_ends_with_the_minds_time(lab: Lab) -> None:
    script(lab.repo / ".git" / "hooks" / "commit-msg", "exec sleep 1000")
    drive(lab, DONE, *met("a"), "--attempt-minutes", "0.02", code=LIMIT)
    [end] = lab.facts(e.BranchEnded)
    assert (end.reason, end.seconds < 5) == ("deadline", True)


# --- settings --------------------------------------------------------------------------------------------------------


def test_a_persons_settings_neither_stop_nor_change_a_run(lab: Lab) -> None:
    settings = {
        "merge.ff": "only",
        "pull.ff": "only",
        "merge.conflictStyle": "zdiff3",
        "rerere.enabled": "true",
        "init.defaultBranch": "trunk",
        "push.default": "nothing",
        "diff.external": "false",
        "core.fsmonitor": "true",
        "core.autocrlf": "true",
        "core.hooksPath": str(lab.root / "hooks"),
    }
    for key, value in settings.items():
        lab.git("config", key, value)
    ran = lab.root / "ran"
    (lab.root / "hooks").mkdir()
    for name in HOOKS:
        script(lab.root / "hooks" / name, f'[ -n "$ORCHCONVERGE_BRIEF" ] || echo {name} >> {ran}')
    drive(lab, f"printf 'one\\r\\ntwo\\r\\n' > crlf; git add crlf; {DONE}", *met("a"), "--final", "push")
    assert not ran.exists()
    assert lab.git("cat-file", "-p", "orchconverge/goal:crlf", cwd=lab.remote) == "one\ntwo"
    assert lab.reports("orchconverge/goal")


@pytest.mark.parametrize("place", ["--worktree", "--here"])
def test_where_every_commit_is_to_be_signed_and_nobody_can_sign(lab: Lab, place: str) -> None:
    """In a worktree a mind's commits are squashed and need no key; in place they are a person's branch, and it is said."""
    lab.git("switch", "-q", "-c", "topic")
    lab.git("config", "--global", "commit.gpgSign", "true")
    lab.git("config", "--global", "gpg.program", "/no/such/gpg")
    if place == "--worktree":
        drive(lab, DONE, *met("a"))
        assert "gpgsig" not in lab.git("cat-file", "-p", "topic")
    else:
        drive(lab, DONE, *met("a"), place="--here", code=LIMIT)
        [failed] = lab.facts(e.BranchFailed)
        assert "/no/such/gpg" in failed.reason


# --- checkouts -------------------------------------------------------------------------------------------------------


def test_a_sparse_checkout_stays_as_sparse_as_it_was(lab: Lab) -> None:
    for folder in ("in", "out"):
        (lab.repo / folder).mkdir()
        (lab.repo / folder / "f").write_text("f\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "folders")
    lab.git("sparse-checkout", "set", "--cone", "in")
    before = contents(lab.repo)
    drive(lab, DONE, "--criterion", "a=grep -q yes a.txt && test -f in/f && test ! -e out")
    assert lab.git("ls-tree", "--name-only", "orchconverge/goal", "out/", "a.txt") == "a.txt\nout/f"
    assert contents(lab.repo) == before
    assert lab.git("sparse-checkout", "list") == "in"


def test_a_bare_repository_is_worked_in_from_a_linked_worktree(lab: Lab) -> None:
    """The caller's tree is the one that has the target, and moves along; no tree of a person's is removed."""
    lab.repo.rename(lab.root / "first")
    lab.git("clone", "-q", "--bare", str(lab.remote), str(lab.repo / ".git"), cwd=lab.root)
    linked = lab.root / "linked"
    lab.git("worktree", "add", "-q", "-b", "topic", str(linked), "main", cwd=lab.repo / ".git")
    drive(lab, DONE, *met("a"), cwd=linked)
    assert (linked / "a.txt").read_text() == "yes\n"
    assert lab.git("status", "--porcelain", cwd=linked) == ""
    assert lab.worktrees() == [str(linked)]
    lab.git("worktree", "remove", str(linked), cwd=lab.repo / ".git")


def contents(path: Path) -> dict[str, str]:
    """Every file of a working tree and its digest."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file() and ".git" not in file.relative_to(path).parts)
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture
def elsewhere(lab: Lab) -> Path:
    """Where a person has `topic` checked out, in a linked worktree."""
    path = lab.root / "elsewhere"
    lab.git("worktree", "add", "-q", "-b", "topic", str(path))
    return path


def put_away(lab: Lab, path: Path) -> None:
    """Remove a person's worktree, which has to be there still."""
    lab.git("worktree", "remove", "--force", str(path))


def test_a_clean_checkout_of_the_target_elsewhere_moves_along(lab: Lab, elsewhere: Path) -> None:
    drive(lab, DONE, *met("a"), "--into", "topic")
    assert (elsewhere / "a.txt").read_text() == "yes\n"
    assert lab.git("status", "--porcelain", cwd=elsewhere) == ""
    put_away(lab, elsewhere)


@pytest.mark.slow
def test_a_dirty_checkout_of_the_target_elsewhere_is_waited_for_and_left_byte_for_byte(
    lab: Lab, elsewhere: Path
) -> None:
    (elsewhere / "README.md").write_text("a person's\n")
    (elsewhere / "new").write_text("a person's too\n")
    before, status = contents(elsewhere), lab.git("status", "--porcelain=v2", cwd=elsewhere)
    lab.play("goal", lab.script(mind(*meets("a"))), *met("a"), "--worktree", "--into", "topic", "--final", "none")
    waits = lab.fact(e.RunWaiting)
    assert (waits.reason, str(elsewhere) in waits.text, "README.md" in waits.text) == ("branch", True, True)
    assert "README.md" in lab.run("status", "--verbose", code=0).stdout
    assert (contents(elsewhere), lab.git("status", "--porcelain=v2", cwd=elsewhere)) == (before, status)
    lab.git("checkout", "-q", "README.md", cwd=elsewhere)
    lab.run("--stop", code=0)  # it would look again within half a minute
    lab.run("--resume", code=0)
    lab.wait()
    assert (elsewhere / "a.txt").read_text() == "yes\n"
    assert (elsewhere / "new").read_text() == "a person's too\n"
    put_away(lab, elsewhere)


# --- cases -----------------------------------------------------------------------------------------------------------


def test_b114_work_that_was_not_committed_is_kept_before_its_tree_goes_and_is_no_success(lab: Lab) -> None:
    """Work in the tree was reported as "no change needed"."""
    drive(lab, "echo yes > a.txt; mkdir d; echo 1 > d/untracked; echo ALL DONE\n", *met("a"), code=LIMIT)
    [failed] = lab.facts(e.BranchFailed)
    assert failed.reason.startswith("committed nothing, though it ended by itself; what it left uncommitted is kept: ")
    kept = lab.git("ls-tree", "-r", "--name-only", "refs/orchconverge/keep/goal.1-leftovers").splitlines()
    assert kept == ["README.md", "a.txt", "d/untracked"]
    assert [fact.result for fact in lab.facts(e.AttemptEnded)] == ["no_progress"]
    assert lab.worktrees() == []


def test_b130_a_branch_that_stands_in_the_way_of_ours_is_named_before_anything_begins(lab: Lab) -> None:
    """Cannot lock ref, in the middle of a run."""
    lab.git("branch", "orchconverge")
    said = lab.play("goal", lab.script(mind(*meets("a"))), *met("a"), code=REFUSED).stderr
    assert "branch orchconverge/goal cannot exist beside branch orchconverge" in said
    assert lab.facts(e.RunStarted) == []
    assert lab.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").split() == ["main", "orchconverge"]


@pytest.mark.parametrize("rewinds", [False, True])
def test_b139_a_target_that_a_mind_moved_past_the_gate_is_not_moved_by_us(lab: Lab, rewinds: bool) -> None:
    """The user's commits were lost: an agent had checked out the target branch."""
    lab.git("switch", "-q", "-c", "topic")
    lab.git("commit", "-q", "--allow-empty", "-m", "a person's")
    lab.git("switch", "-q", "main")
    past = f"git switch -q --ignore-other-worktrees topic; {'git reset -q --hard HEAD~1; ' if rewinds else ''}{DONE}"
    path = script(lab.root / "mind.sh", past)
    given = ["--engine", "command", "--argv", str(path), "--interval", "0", "--max-attempts", "1", "--final", "none"]
    lab.run("goal", "--worktree", "--into", "topic", *met("a"), *given)
    waiting = lab.fact(e.RunWaiting)
    assert waiting.reason == "branch"
    assert "a mind moved topic to" in waiting.text
    judged = lab.facts(e.BasinChecked)[0].head
    assert f"git update-ref refs/heads/topic {judged:.12}" in waiting.text
    lab.run("--stop", "--cleanup")
    by_hand = ["a", "init"] if rewinds else ["a", "a person's", "init"]
    assert lab.git("log", "--format=%s", "topic").splitlines() == by_hand, "it is never moved back by us"
    assert lab.facts(e.BranchGrafted) == []
    assert lab.git("log", "-1", "--format=%s", lab.facts(e.BranchSpawned)[0].base) == "a person's"
