"""Git under hostile or merely unusual settings, names and states."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from orchconverge.adapters import git_process
from orchconverge.adapters.git import Repository
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused

PERSON = "[user]\n\tname = Ann Person\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
ODD_PATHS = [
    "with space", "quo'te", 'dou"ble', "new\nline", "tab\there", "ünï/cødé", "#(touch x)", "$(touch x)", "-leading",
    "--all", ":(top)magic", "*", "back\\slash", "invalid-\udcff", " edge ",
]  # fmt: skip
ODD_BRANCHES = [
    "a'b",
    'a"b',
    "a#(x)",
    "a$(x)",
    "aé",
    "a.b",
    "a/b",
    "a;b",
    "a&b",
    "a=b",
    "(detached",
    "%s",
    "v1,2",
    "f" * 200,
]


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


def by_hand(cwd: Path, *args: str, check: bool = True) -> str:
    done = subprocess.run(["git", "-C", str(cwd), *args], check=check, capture_output=True)
    return os.fsdecode(done.stdout).strip()


def commit(tree: Path, message: str = "work", **files: str) -> Sha:
    for name, text in files.items():
        (tree / name).write_text(text)
    by_hand(tree, "add", "--all")
    by_hand(tree, "commit", "--quiet", "--allow-empty", "-m", message)
    return Sha(by_hand(tree, "rev-parse", "HEAD"))


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return tmp_path / "trees"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    by_hand(folder, "init", "--quiet")
    commit(folder, "start", a="one\n")
    return folder


@pytest.fixture
def repo(root: Path, trees: Path) -> Repository:
    return Repository.open(root, trees=trees)


@pytest.fixture
def base(repo: Repository) -> Sha:
    found = repo.resolve("HEAD")
    assert found is not None
    return found


def commit_all(repo: Repository, tree: Path, message: str) -> Sha:
    """A mind's commit, made with the flags and the environment of our own git: the settings of a test are for those."""
    repo.run(["add", "--all"], cwd=tree)
    repo.run(["commit", "--quiet", "--no-verify", "-m", message], cwd=tree, env=repo._who())
    return Sha(repo.run(["rev-parse", "HEAD"], cwd=tree).text)


def whole_round(repo: Repository, trees: Path, *, branch: str = "mind", files: tuple[str, ...] = ("fresh",)) -> Sha:
    """Everything a mind's work goes through: a worktree, leftovers, a squash, a graft, a report."""
    base = repo.resolve("refs/heads/main")
    assert base is not None
    repo.add_worktree(trees / "m", branch=branch, at=base)
    for file in files:
        (trees / "m" / file).parent.mkdir(parents=True, exist_ok=True)
        (trees / "m" / file).write_text("fresh\n")
    kept = repo.snapshot(trees / "m", "mind.1")
    head = commit_all(repo, trees / "m", "made")
    assert kept is not None
    assert repo.tree_of(kept) == repo.tree_of(head)
    assert repo.checkout(trees / "m").branch == branch
    assert repo.checked_out_at(branch) == trees / "m"
    assert set(repo.work(base, head).changed) == set(files)
    assert repo.merges(base, head)
    squash = repo.squash(trees / "q", tip=base, head=head)
    assert squash.tree == repo.tree_of(head)
    assert repo.squash(trees / "q", tip=base, head=head, base=base, paths=files).tree == squash.tree
    assert repo.squash(trees / "q", tip=base, head=head, base=base, commits=(head,)).tree == squash.tree
    trailers = "Orchconverge-Basin: goal\nOrchconverge-Branch: goal.1"
    graft = repo.commit_tree(squash.tree, parent=base, message=f"graft\n\n{trailers}")
    assert repo.changed(base, graft) == tuple(sorted(files, key=os.fsencode))
    repo.offer("goal", graft)
    assert repo.advance("main", new=graft, old=base)
    assert [(x.commit, x.branch, x.paths) for x in repo.landed("goal", since=base, head=graft)] == [
        (graft, "goal.1", repo.changed(base, graft))
    ]
    report = repo.commit_file("main", "report.md", "# report\n", "report")
    assert repo.work(graft, report).changed == ("report.md",)
    for name in ("m", "q"):
        repo.remove_worktree(trees / name)
    stands = repo.checkout(repo.root)
    assert (stands.head, stands.dirty, stands.untracked) == (report, (), ())
    return report


# --- where it opens --------------------------------------------------------------------------------------------------


def test_what_is_no_repository_is_refused_with_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not a git repository") as caught:
        Repository.open(tmp_path, trees=tmp_path / "t")
    assert "git init" in caught.value.hint
    with pytest.raises(Refused):
        Repository.open(tmp_path / "missing", trees=tmp_path / "t")


def test_a_repository_without_a_commit_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    by_hand(tmp_path, "init", "--quiet", "new")
    before = sorted((tmp_path / "new").rglob("*"))
    with pytest.raises(Refused, match="needs one commit"):
        Repository.open(tmp_path / "new", trees=tmp_path / "t")
    assert sorted((tmp_path / "new").rglob("*")) == before


def test_a_bare_repository_and_a_git_directory_are_refused(tmp_path: Path, root: Path) -> None:
    by_hand(tmp_path, "clone", "--quiet", "--bare", str(root), "bare")
    with pytest.raises(Refused, match="bare"):
        Repository.open(tmp_path / "bare", trees=tmp_path / "t")
    with pytest.raises(Refused, match="inside a git directory"):
        Repository.open(root / ".git", trees=tmp_path / "t")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user_is_refused_in_one_line_with_what_to_type(root: Path, trees: Path) -> None:
    for path in (root, root / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(Refused, match="does not trust") as caught:
        Repository.open(root, trees=trees)
    assert "\n" not in caught.value.message + caught.value.hint
    assert f"git config --global --add safe.directory {root}" in caught.value.hint


def test_it_opens_in_a_folder_in_a_linked_worktree_and_with_an_unborn_branch(
    repo: Repository, root: Path, trees: Path, base: Sha
) -> None:
    (root / "sub").mkdir()
    assert Repository.open(root / "sub", trees=trees).root == root
    repo.add_worktree(trees / "m", branch="m", at=base)
    linked = Repository.open(trees / "m", trees=trees)
    assert (linked.root, linked.common_dir) == (trees / "m", repo.common_dir)
    assert linked.checked_out_at("main") == root
    with pytest.raises(Refused):
        linked.remove_worktree(trees / "m")
    by_hand(root, "checkout", "--quiet", "--orphan", "fresh")
    assert Repository.open(root, trees=trees).checkout(root).head is None


def test_inherited_variables_lead_nowhere_else(
    repo: Repository, root: Path, base: Sha, trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    monkeypatch.setenv("GIT_TRACE", "1")
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Kept")
    assert repo.resolve("HEAD") == base
    assert repo.checkout(root).branch == "main"
    assert repo.run(["var", "GIT_COMMITTER_IDENT"]).text.startswith("Kept <ann@")
    assert repo.run(["status"]).err == ""
    (root / "a").write_text("changed\n")
    assert repo.snapshot(root, "s") is not None
    (root / "a").write_text("one\n")
    repo.add_worktree(trees / "m", branch="m", at=base)
    (trees / "m/new").write_text("x")
    head = commit_all(repo, trees / "m", "made")
    assert repo.advance("main", new=head, old=base)
    for name in [name for name in os.environ if name.startswith("GIT_") and name != "GIT_CONFIG_NOSYSTEM"]:
        monkeypatch.delenv(name)
    assert by_hand(root, "status", "--porcelain") == ""
    assert by_hand(root, "rev-parse", "HEAD") == head


def test_a_path_with_a_newline_and_quotes_is_a_path(tmp_path: Path) -> None:
    root = tmp_path / "new\nline 'quo\"te' #(x) é"
    root.mkdir()
    by_hand(root, "init", "--quiet")
    commit(root, "start", a="a")
    trees = tmp_path / "tr\nees é"
    whole_round(Repository.open(root, trees=trees), trees)


# --- settings --------------------------------------------------------------------------------------------------------

SETTINGS = {
    "signing without a key": "[commit]\n\tgpgSign = true\n[user]\n\tsigningKey = nope\n[gpg]\n\tprogram = false\n",
    "fast-forward only": "[merge]\n\tff = only\n[pull]\n\tff = only\n",
    "never fast-forward": "[merge]\n\tff = false\n",
    "line ends": "[core]\n\tautocrlf = true\n\tsafecrlf = true\n\teol = crlf\n",
    "signed merges": "[merge]\n\tverifySignatures = true\n[log]\n\tshowSignature = true\n",
    "odd output": (
        "[color]\n\tui = always\n[status]\n\tshowUntrackedFiles = no\n\trelativePaths = false\n\tbranch = true\n"
        "[diff]\n\tnoprefix = true\n\trenames = copies\n\texternal = false\n\tignoreSubmodules = all\n"
        "[log]\n\tdecorate = full\n\tdate = relative\n[format]\n\tpretty = raw\n[core]\n\tquotePath = true\n"
        "[i18n]\n\tcommitEncoding = latin1\n\tlogOutputEncoding = latin1\n[column]\n\tui = always\n"
    ),
    "odd commits": "[commit]\n\tcleanup = scissors\n\ttemplate = /nowhere\n\tverbose = true\n\tstatus = false\n",
    "tracking": "[branch]\n\tautoSetupMerge = always\n\tautoSetupRebase = always\n[checkout]\n\tguess = true\n",
    "merge options": '[branch "main"]\n\tmergeOptions = --squash --no-commit -s ours\n[merge]\n\tautoStash = true\n',
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_whole_round_works_under_any_settings(home: Path, repo: Repository, trees: Path, setting: str) -> None:
    with (home / ".gitconfig").open("a") as file:
        file.write(SETTINGS[setting])
    report = whole_round(repo, trees)
    assert by_hand(repo.root, "cat-file", "-p", f"{report}:report.md") == "# report"
    assert by_hand(repo.root, "for-each-ref", "--format=%(upstream)", "refs/heads") == ""


def test_hooks_fsmonitor_and_pagers_never_run(repo: Repository, root: Path, trees: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho $0 >> {shlex.quote(str(canary))}\nexit 1\n")
    evil.chmod(0o755)
    planted = tmp_path / "planted"
    for folder in (root / ".git/hooks", planted):
        folder.mkdir(exist_ok=True)
        for hook in ("pre-commit", "post-commit", "post-merge", "pre-merge-commit", "prepare-commit-msg", "commit-msg",
                     "post-checkout", "reference-transaction", "post-index-change", "pre-push"):  # fmt: skip
            (folder / hook).unlink(missing_ok=True)
            (folder / hook).symlink_to(evil)
    for key in ("core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.sshCommand", "gpg.program"):
        by_hand(root, "config", key, str(evil))
    by_hand(root, "config", "core.hooksPath", str(planted))
    by_hand(root, "config", "alias.status", f"!{evil}")
    canary.unlink(missing_ok=True)
    whole_round(repo, trees)
    assert not canary.exists()


def test_a_clean_filter_does_run_and_that_is_why_there_is_a_fingerprint(
    repo: Repository, root: Path, trees: Path, tmp_path: Path
) -> None:
    before = repo.fingerprint()
    canary = tmp_path / "canary"
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/attributes").write_text("* filter=x\n")
    by_hand(root, "config", "filter.x.clean", f"touch {shlex.quote(str(canary))}; cat")
    whole_round(repo, trees)
    assert canary.exists()
    assert repo.fingerprint() != before


def test_a_replaced_commit_is_not_what_is_seen(repo: Repository, root: Path, base: Sha) -> None:
    new = commit(root, b="b")
    by_hand(root, "replace", new, base)
    assert repo.work(base, new).changed == ("b",)


@pytest.mark.parametrize("known", ["nobody", "half", "environment"])
def test_without_an_identity_our_commits_are_ours(
    home: Path, repo: Repository, base: Sha, trees: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    (home / ".gitconfig").write_text("[user]\n\tname = Half\n" if known == "half" else "")
    if known == "environment":
        for who in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{who}_NAME", "Env")
            monkeypatch.setenv(f"GIT_{who}_EMAIL", "env@example.org")
    made = repo.commit_tree(repo.tree_of(base), parent=base, message="m")
    person = "Env <env@example.org>" if known == "environment" else "orchconverge <orchconverge@localhost>"
    told = repo.work(base, made).commits[0]
    assert (told.author, told.committer) == (person, person)


def test_sparse_worktree_settings_copied_to_a_new_tree_leave_the_fingerprint(
    repo: Repository, root: Path, base: Sha, trees: Path
) -> None:
    by_hand(root, "config", "extensions.worktreeConfig", "true")
    by_hand(root, "config", "--worktree", "core.untrackedCache", "keep")
    before = repo.fingerprint()
    repo.add_worktree(trees / "m", branch="m", at=base)
    assert (root / ".git/worktrees/m/config.worktree").exists()
    assert repo.fingerprint() == before
    by_hand(trees / "m", "config", "--worktree", "core.sshCommand", "evil")
    assert repo.fingerprint() != before


# --- names -----------------------------------------------------------------------------------------------------------


def test_odd_paths_come_back_as_they_are(repo: Repository, root: Path, trees: Path, base: Sha) -> None:
    whole_round(repo, trees, files=tuple(ODD_PATHS))
    for name in ODD_PATHS:
        (root / name).write_text("other\n")
        (root / f"{name}2").write_text("other\n")
    stands = repo.checkout(root)
    assert (set(stands.dirty), set(stands.untracked)) == (set(ODD_PATHS), {f"{name}2" for name in ODD_PATHS})


@pytest.mark.parametrize("place", ["checked out", "nowhere"])
def test_one_file_of_an_odd_path_is_committed_alone(repo: Repository, base: Sha, place: str) -> None:
    repo.create_branch("side", base)
    branch = "main" if place == "checked out" else "side"
    before = base
    for name in ODD_PATHS:
        made = repo.commit_file(branch, f"d/{name}", "text\n", "one file")
        assert repo.work(before, made).changed == (f"d/{name}",)
        before = made
    assert repo.resolve(branch) == before


def test_conflicts_name_odd_paths_as_they_are(repo: Repository, root: Path, trees: Path, base: Sha) -> None:
    repo.add_worktree(trees / "m", branch="m", at=base)
    heads = []
    for tree in (root, trees / "m"):
        for name in ODD_PATHS:
            (tree / name).parent.mkdir(exist_ok=True)
            (tree / name).write_text(f"{tree}\n")
        heads.append(commit(tree))
    assert set(repo.squash(trees / "q", tip=heads[0], head=heads[1]).conflicts) == set(ODD_PATHS)


def test_odd_branch_names_are_names(repo: Repository, trees: Path, base: Sha) -> None:
    new = repo.commit_tree(repo.tree_of(base), parent=base, message="new")
    for branch in ODD_BRANCHES:
        repo.add_worktree(trees / "m", branch=branch, at=base)
        assert repo.checkout(trees / "m").branch == branch
        assert repo.checked_out_at(branch) == trees / "m"
        assert repo.advance(branch, new=new, old=base)
        assert repo.resolve(branch) == repo.checkout(trees / "m").head == new
        repo.remove_worktree(trees / "m")
        repo.commit_file(branch, "r.md", "x", "report")
    assert repo.resolve("refs/heads/main") == base


def test_text_that_is_not_utf8_is_told_as_text(repo: Repository, root: Path, base: Sha) -> None:
    made = Sha(
        subprocess.run(
            ["git", "-C", str(root), "commit-tree", f"{base}^{{tree}}", "-p", base],
            input=b"caf\xe9 \xff\n",
            check=True,
            capture_output=True,
        ).stdout.decode().strip()
    )  # fmt: skip
    by_hand(root, "config", "i18n.logOutputEncoding", "latin1")
    assert repo.work(base, made).commits[0].subject.encode() == "café ÿ".encode()


# --- states ----------------------------------------------------------------------------------------------------------


def conflicting(root: Path) -> None:
    base = by_hand(root, "rev-parse", "HEAD")
    by_hand(root, "checkout", "--quiet", "-b", "other")
    commit(root, "first", b="b")
    commit(root, "theirs", a="theirs\n")
    by_hand(root, "checkout", "--quiet", "main")
    assert by_hand(root, "rev-parse", "HEAD") == base
    commit(root, "ours", a="ours\n")


@pytest.mark.parametrize(
    ("command", "operation"),
    [
        ("merge other", "merge"),
        ("rebase other", "rebase"),
        ("rebase --apply other", "rebase"),
        ("cherry-pick other", "cherry-pick"),
        ("cherry-pick other~2..other", "cherry-pick"),
        ("revert --no-commit HEAD", "revert"),
        ("am --3way ../series", "am"),
        ("bisect start", "bisect"),
        ("merge --squash other", "conflict"),
        ("stash apply", "conflict"),
    ],
)
def test_an_operation_in_progress_is_seen_and_nothing_is_done_to_it(
    repo: Repository, root: Path, base: Sha, trees: Path, command: str, operation: str
) -> None:
    (root / "a").write_text("stashed\n")
    by_hand(root, "stash", "push", "--quiet")
    conflicting(root)
    (root.parent / "series").write_text(by_hand(root, "format-patch", "--stdout", "-1", "other") + "\n")
    by_hand(root, *command.split(), check=False)
    tip = repo.resolve("refs/heads/main")
    assert tip is not None
    stands = repo.checkout(root)
    assert stands.operation == operation
    before = (by_hand(root, "status"), (root / "a").read_bytes())
    assert repo.checked_out_at("main") == root  # in the middle of a rebase too
    new = repo.commit_tree(repo.tree_of(tip), parent=tip, message="graft")
    with pytest.raises(Refused, match=operation):
        repo.advance("main", new=new, old=tip)
    with pytest.raises(Refused, match=operation):
        repo.commit_file("main", "r.md", "x", "report")
    if stands.dirty:
        assert repo.snapshot(root, "kept") is not None
    assert (by_hand(root, "status"), (root / "a").read_bytes()) == before
    assert repo.resolve("refs/heads/main") == tip


def test_a_persons_staged_change_is_in_none_of_our_commits(
    repo: Repository, root: Path, base: Sha, trees: Path
) -> None:
    repo.add_worktree(trees / "m", branch="m", at=base)
    new = commit(trees / "m", b="b")
    (root / "secret").write_text("mine\n")
    by_hand(root, "add", "secret")
    with pytest.raises(Refused, match="secret"):
        repo.advance("main", new=new, old=base)
    made = repo.commit_file("main", "r.md", "x\n", "report")
    assert repo.work(base, made).changed == ("r.md",)
    assert by_hand(root, "status", "--porcelain") == "A  secret"


def test_what_git_ignores_is_a_persons_too_and_is_not_overwritten(
    repo: Repository, root: Path, base: Sha, trees: Path
) -> None:
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/exclude").write_text(".env\nr.md\n")
    for name in (".env", "r.md"):
        (root / name).write_text("mine\n")
    repo.add_worktree(trees / "m", branch="m", at=base)
    (trees / "m/.env").write_text("theirs\n")
    by_hand(trees / "m", "add", "--force", ".env")
    new = commit(trees / "m")
    with pytest.raises(Refused, match=r"\.env|overwritten|cannot be moved"):
        repo.advance("main", new=new, old=base)
    with pytest.raises(Refused, match="not committed"):
        repo.commit_file("main", "r.md", "ours\n", "report")
    assert [(root / name).read_text() for name in (".env", "r.md")] == ["mine\n", "mine\n"]
    assert repo.resolve("refs/heads/main") == base


def test_a_fast_forward_that_was_killed_before_the_ref_moved_is_completed(
    repo: Repository, root: Path, base: Sha, trees: Path
) -> None:
    repo.add_worktree(trees / "m", branch="m", at=base)
    new = commit(trees / "m", a="new\n", b="b")
    by_hand(root, "read-tree", "-m", "-u", base, new)
    assert repo.checkout(root).dirty == ("a", "b")
    assert repo.advance("main", new=new, old=base)
    assert repo.checkout(root).dirty == ()


def test_work_on_a_detached_head_is_work(repo: Repository, base: Sha, trees: Path) -> None:
    repo.add_worktree(trees / "m", branch="m", at=base)
    by_hand(trees / "m", "checkout", "--quiet", "--detach")
    head = commit(trees / "m", b="b")
    stands = repo.checkout(trees / "m")
    assert (stands.branch, stands.head) == (None, head)
    assert repo.resolve("refs/heads/m") == base
    squash = repo.squash(trees / "q", tip=base, head=head)
    assert squash.tree == repo.tree_of(head)
    (trees / "m/c").write_text("c")
    left = commit_all(repo, trees / "m", "left")
    assert repo.checkout(trees / "m").head == left


def test_a_graft_lock_left_by_a_killed_git_is_explained(repo: Repository, root: Path, base: Sha) -> None:
    (root / ".git/index.lock").touch()
    with pytest.raises(Failed, match=r"index\.lock") as caught:
        repo.commit_file("main", "r.md", "x\n", "report")
    assert "delete" in caught.value.hint
    assert repo.checkout(root).branch == "main"


# --- worktrees -------------------------------------------------------------------------------------------------------


def test_a_worktree_swapped_for_a_link_is_not_removed(
    repo: Repository, root: Path, base: Sha, trees: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    for place in (victim, tmp_path / "linked"):
        place.mkdir()
        (place / "precious").write_text("1")
    for name in ("m", "n", "o"):
        repo.add_worktree(trees / name, branch=name, at=base)
    (trees / "m").rename(tmp_path / "moved")
    (trees / "m").symlink_to(victim)
    (trees / "n").rename(tmp_path / "moved-n")
    (trees / "n").symlink_to(root)
    (trees / "up").symlink_to(tmp_path)
    by_hand(root, "worktree", "add", "--quiet", "--detach", str(tmp_path / "theirs"))
    (trees / "o/.git").write_text(f"gitdir: {root}/.git/worktrees/theirs\n")
    for path in (trees / "m", trees / "n", trees / "o", trees / "up" / "linked", trees / "up" / "theirs"):
        with pytest.raises(Refused):
            repo.remove_worktree(path)
    assert (victim / "precious").exists()
    assert (root / "a").exists()
    assert (trees / "o/a").exists()
    assert (tmp_path / "theirs/a").exists()


def test_a_link_inside_a_worktree_is_removed_and_not_what_it_names(
    repo: Repository, base: Sha, trees: Path, tmp_path: Path
) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/precious").write_text("1")
    repo.add_worktree(trees / "m", branch="m", at=base)
    (trees / "m/link").symlink_to(tmp_path / "victim")
    repo.remove_worktree(trees / "m")
    assert (tmp_path / "victim/precious").exists()


@pytest.mark.parametrize("planted", ["missing", "folder", "elsewhere", "pipe"])
def test_a_worktree_without_its_own_git_file_answers_nothing(
    repo: Repository, base: Sha, trees: Path, tmp_path: Path, planted: str
) -> None:
    by_hand(tmp_path, "init", "--quiet", ".")  # git alone would answer for the repository around
    repo.add_worktree(trees / "m", branch="m", at=base)
    dot = trees / "m/.git"
    dot.unlink()
    if planted == "folder":
        by_hand(trees / "m", "init", "--quiet")
    elif planted == "elsewhere":
        dot.write_text(f"gitdir: {tmp_path}/.git\n")
    elif planted == "pipe":
        os.mkfifo(dot)
    (trees / "m/new").write_text("x")
    for ask in (repo.checkout, lambda path: repo.snapshot(path, "s")):
        with pytest.raises(Failed, match="not a working tree of this repository"):
            ask(trees / "m")
    if planted != "missing":
        with pytest.raises(Refused):
            repo.remove_worktree(trees / "m")
        assert (trees / "m/new").exists()


STAGES = ["entry", "pointer", "folder", "empty git file", "git file", "head", "commondir", "files"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_worktree_is_added_after_a_kill_at_any_point(
    repo: Repository, root: Path, base: Sha, trees: Path, stage: str
) -> None:
    """The order is that of git's builtin/worktree.c."""
    reached = STAGES.index(stage)
    entry, place = root / ".git/worktrees/m", trees / "m"
    repo.create_branch("m", base)
    entry.mkdir(parents=True)
    (entry / "locked").write_text("initializing")
    place.mkdir(parents=True)
    steps = [
        lambda: None,
        lambda: (entry / "gitdir").write_text(f"{place}/.git\n"),
        lambda: None,
        (place / ".git").touch,
        lambda: (place / ".git").write_text(f"gitdir: {entry}\n"),
        lambda: (entry / "HEAD").write_text("0" * 40 + "\n"),
        lambda: (entry / "commondir").write_text("../..\n"),
        lambda: (place / "a").write_text("half"),
    ]
    for step in steps[: reached + 1]:
        step()
    repo.add_worktree(place, branch="m", at=base)
    stands = repo.checkout(place)
    assert (stands.branch, stands.head, stands.dirty, stands.untracked) == ("m", base, (), ())
    assert not (repo.common_dir / "worktrees/m/locked").exists() or stage == "entry"
    repo.remove_worktree(place)


def test_a_removal_that_was_killed_is_finished(repo: Repository, base: Sha, trees: Path) -> None:
    repo.add_worktree(trees / "m", branch="m", at=base)
    (trees / "m/.git").unlink()
    (trees / "m/rest").write_text("x")
    repo.remove_worktree(trees / "m")
    assert not (trees / "m").exists()
    repo.add_worktree(trees / "m", branch="m", at=base)


def test_a_locked_worktree_of_ours_is_removed(repo: Repository, base: Sha, trees: Path) -> None:
    repo.add_worktree(trees / "m", branch="m", at=base)
    by_hand(trees / "m", "worktree", "lock", str(trees / "m"))
    repo.remove_worktree(trees / "m")
    assert not (trees / "m").exists()


def test_a_worktree_is_not_laid_inside_another(repo: Repository, root: Path, base: Sha, trees: Path) -> None:
    inside = Repository.open(root, trees=root / "data")
    with pytest.raises(Refused, match="inside the working tree") as caught:
        inside.add_worktree(root / "data/m", branch="m", at=base)
    assert "XDG_DATA_HOME" in caught.value.hint
    assert repo.resolve("refs/heads/m") is None
    repo.add_worktree(trees / "m", branch="m", at=base)
    with pytest.raises(Refused, match="inside the working tree"):
        repo.add_worktree(trees / "m/n", branch="n", at=base)


def test_a_repository_inside_a_worktree_is_not_swallowed(repo: Repository, base: Sha, trees: Path) -> None:
    repo.add_worktree(trees / "m", branch="m", at=base)
    by_hand(trees / "m", "worktree", "add", "--quiet", "--detach", "nested *")
    by_hand(trees / "m", "init", "--quiet", "empty")
    assert set(repo.checkout(trees / "m").untracked) == {"nested */", "empty/"}
    assert repo.snapshot(trees / "m", "s") is None
    assert set(repo.nested(trees / "m")) == {"nested */", "empty/"}
    (trees / "m/nested").write_text("a file")
    kept = repo.snapshot(trees / "m", "s")
    assert kept is not None
    assert repo.work(base, kept).changed == ("nested",)


def test_a_worktree_with_a_submodule_is_squashed_and_removed(
    repo: Repository, root: Path, trees: Path, tmp_path: Path
) -> None:
    by_hand(tmp_path, "init", "--quiet", "library")
    commit(tmp_path / "library", l="l")
    by_hand(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    base = commit(root, "with library")
    repo.add_worktree(trees / "m", branch="m", at=base)
    by_hand(trees / "m", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    commit(trees / "m/lib", l="changed")
    (trees / "m/lib/dirt").write_text("x")
    assert repo.checkout(trees / "m").dirty == ("lib",)
    head = commit_all(repo, trees / "m", "move the library")
    assert repo.work(base, head).changed == ("lib",)
    assert repo.squash(trees / "q", tip=base, head=head).tree == repo.tree_of(head)
    for name in ("m", "q"):
        repo.remove_worktree(trees / name)
        assert not (trees / name).exists()
    inside = Repository.open(root / "lib", trees=trees)  # its git directory is not where git lists its first tree
    assert inside.checked_out_at("main") == root / "lib"


@pytest.mark.parametrize("link", ["folder", "file"])
def test_a_report_is_not_written_through_a_link(repo: Repository, root: Path, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "r.md").write_text("mine")
    if link == "folder":
        (root / "docs").symlink_to(outside)
    else:
        (root / "docs").mkdir()
        (root / "docs/r.md").symlink_to(outside / "r.md")
    base = commit(root, "a link")
    with pytest.raises(Refused):
        repo.commit_file("main", "docs/r.md", "ours\n", "report")
    assert (outside / "r.md").read_text() == "mine"
    assert repo.resolve("refs/heads/main") == base


# --- away from here, and time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c 'touch canary; echo' %S",
        "fd::17",
        "git://example.org/x",
        "http://example.org/x",
        "ftp://h/x",
        "x::y",
    ],
)
def test_a_transport_that_runs_code_or_shows_secrets_is_refused(
    repo: Repository, root: Path, base: Sha, url: str
) -> None:
    by_hand(root, "config", "remote.away.url", url)
    by_hand(root, "config", "protocol.ext.allow", "always")
    with pytest.raises(Refused, match="transport"):
        repo.push("away", base, "goal")
    assert repo.default_branch("away") == "main"
    assert not (root / "canary").exists()


def test_a_rewritten_address_does_not_bring_a_transport_back(repo: Repository, root: Path, base: Sha) -> None:
    by_hand(root, "config", "remote.away.url", "https://example.org/x")
    by_hand(root, "config", "remote.away.pushurl", "https://example.org/x")
    by_hand(root, "config", "--add", "remote.away.pushurl", "ext::sh -c 'touch canary' %S")
    by_hand(root, "config", "remote.vcs.url", "anything")
    by_hand(root, "config", "remote.vcs.vcs", "ext")
    by_hand(root, "config", "url.ext::sh -c 'touch canary' .insteadOf", "https://example.org/")
    with pytest.raises(Refused, match="transport"):
        repo.push("away", base, "goal")
    ok, _ = repo.push("vcs", base, "goal")
    assert not ok
    assert not (root / "canary").exists()


def test_a_failed_push_says_why_without_the_password(repo: Repository, root: Path, base: Sha) -> None:
    by_hand(root, "config", "remote.away.url", "http://ann:hunter2@127.0.0.1:9/x")
    ok, detail = repo.push("away", base, "goal")
    assert not ok
    assert detail.startswith("fatal: unable to access")
    assert "hunter2" not in detail
    for branch in ("-x", "a:b", "HEAD"):
        with pytest.raises(Refused):
            repo.push("away", base, branch)


def test_a_git_that_hangs_is_ended_and_leaves_no_lock(repo: Repository, root: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    (root / ".gitattributes").write_text("*.slow filter=slow\n")
    by_hand(root, "config", "filter.slow.clean", f"echo $$ > {shlex.quote(str(pid))}; exec tail -f /dev/null")
    (root / "x.slow").write_text("x")
    with pytest.raises(Failed, match="did not end within") as caught:
        repo.run(["add", "x.slow"], deadline_seconds=0.5)
    assert caught.value.hint
    assert not (root / ".git/index.lock").exists()
    command = Path(f"/proc/{pid.read_text().strip()}/cmdline")
    assert not command.exists() or not command.read_bytes()  # gone, or a zombie that is not ours to bury


def test_a_git_that_ignores_being_asked_is_killed(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_process, "GRACE_SECONDS", 0.2)
    stubborn = "!trap '' TERM; while :; do tail -f /dev/null; done"
    with pytest.raises(Failed, match="did not end within"):
        repo.run(["-c", f"alias.hang={stubborn}", "hang"], deadline_seconds=0.2)


def test_where_there_is_no_such_folder_git_is_not_run_elsewhere(repo: Repository, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="missing"):
        repo.run(["status"], cwd=tmp_path / "missing")
