"""Odd places, branches, repositories, environments and disks, on the real command line: it works, or says why in one line."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import COMMAND, Lab

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

COMMIT = "git add -A && git commit -q -m work\n"
CONVERGED, FAILED, REFUSED, LIMIT = 0, 1, 2, 3


def options(lab: Lab, name: str = "done", *, mind: str | None = None) -> list[str]:
    """The arguments of one attempt whose mind makes and commits the file ``name``, which is what is asked for."""
    path = lab.root / "mind.sh"
    path.write_text(f"#!/bin/sh\n{mind or f'touch {name} && {COMMIT}'}")
    path.chmod(0o755)
    given = ["--final", "none", "--interval", "0", "--max-attempts", "1", "--engine", "command"]
    return [*given, "--argv", shlex.quote(str(path)), "--criterion", f"done=test -f {name}"]


def here(lab: Lab, name: str = "done", *more: str, mind: str | None = None, **how: Any) -> str:
    """Converge in the foreground, in place; what it said on stderr."""
    return lab.run("--foreground", *options(lab, name, mind=mind), *more, "reach it", code=CONVERGED, **how).stderr


def away(lab: Lab, name: str = "done", *more: str, **how: Any) -> None:
    """Converge in the goal's tmux session, in worktrees, with a push and a report."""
    lab.run(*options(lab, name), "--worktree", "--final", "push", *more, "reach it", code=CONVERGED, **how)
    lab.run("wait", "--timeout", "30", code=CONVERGED, **how)


def refused(lab: Lab, *args: str, says: str, code: int = REFUSED, **how: Any) -> None:
    """It is one line, a hint and the code, and nothing was written down."""
    before = lab.lines()
    first, hint, *rest = lab.run(*args, code=code, **how).stderr.splitlines()
    assert first.startswith("orchconverge: ")
    assert says in first
    assert hint.startswith("  ")
    assert hint.strip()
    assert rest == []
    assert lab.lines() == before


@pytest.fixture
def topic(lab: Lab) -> Lab:
    lab.git("switch", "-q", "-c", "topic")
    return lab


def moved(lab: Lab, name: str) -> Lab:
    """The same lab with its repository under another name."""
    lab.repo = lab.repo.rename(lab.root / name)
    return lab


# --- paths -----------------------------------------------------------------------------------------------------------

NAME = "-new\nline \x1b[31m üñí \N{GRINNING FACE} back\\slash %p {}*?[x]"
WORST = "sp ace'q\"u #(touch canary1) $(touch canary2) `touch canary3`; touch canary4 ;"


def test_a_repository_at_an_odd_path_converges_in_place(topic: Lab) -> None:
    """B9 B49 T1 T6."""
    moved(topic, NAME)
    here(topic)
    for look in ("logs", "--status", "report"):
        assert "\x1b" not in topic.run(look, code=0).stdout


def test_a_repository_at_the_worst_path_converges_through_tmux_worktrees_and_a_push(topic: Lab) -> None:
    away(moved(topic, WORST))
    assert topic.git("log", "-1", "--format=%s", "topic", cwd=topic.remote).startswith("docs: convergence report")
    attach = topic.run("attach", "--print", code=0).stdout
    assert shlex.split(attach)[:3] == ["tmux", "-S", str(topic.socket)]
    assert not [path for place in (topic.root, Path("/"), Path.cwd()) for path in place.glob("canary*")]
    assert not list(topic.root.rglob("canary*"))


def test_a_path_or_branch_that_is_no_utf8_is_refused_by_name(topic: Lab) -> None:
    topic.git("branch", os.fsdecode(b"odd\xff"))
    refused(topic, *options(topic), "--into", os.fsdecode(b"odd\xff"), "x", says="the name of the branch is not UTF-8")
    topic.git("branch", "-D", os.fsdecode(b"odd\xff"))
    moved(topic, os.fsdecode(b"bad\xff"))
    refused(topic, *options(topic), "x", says="the name of this repository is not UTF-8")
    topic.run("--status", code=0)
    moved(topic, "repo")


def test_a_link_a_subdirectory_and_a_linked_worktree_lead_to_the_same_ledger(topic: Lab) -> None:
    """B133 B169."""
    (topic.repo / "sub" / "deep").mkdir(parents=True)
    (topic.repo / "sub" / "deep" / "x").touch()
    topic.git("add", "-A")
    topic.git("commit", "-q", "-m", "sub")
    (topic.root / "link").symlink_to(topic.repo)
    here(topic, "a", cwd=topic.root / "link" / "sub" / "deep")
    assert (topic.repo / "a").exists()
    tree = topic.root / "linked tree"
    topic.git("worktree", "add", "-q", "-b", "other", str(tree))
    here(topic, "b", cwd=tree)
    assert (tree / "b").exists()
    assert [fact.target for fact in topic.facts(e.BasinDeclared)] == ["topic", "other"]
    topic.git("worktree", "remove", "--force", str(tree))


# --- repositories ----------------------------------------------------------------------------------------------------


def test_without_a_usable_repository_every_command_says_so(lab: Lab) -> None:
    """B132."""
    nowhere, bare, unborn, theirs = (lab.root / name for name in ("nowhere", "bare.git", "unborn", "theirs"))
    nowhere.mkdir()
    lab.git("init", "-q", "--bare", str(bare), cwd=lab.root)
    lab.git("init", "-q", str(unborn), cwd=lab.root)
    start = " ".join([*options(lab)[:-2], "--criterion a=false x"])
    for words in ("--status", "logs", "--stop", start):
        refused(lab, *shlex.split(words), cwd=nowhere, says="is not in a git repository")
    for words in ("--stop", start):
        refused(lab, *shlex.split(words), cwd=bare, says="is a bare repository")
        refused(lab, *shlex.split(words), cwd=unborn, says="needs one commit")
    refused(lab, "--stop", cwd=lab.repo / ".git", says="inside a git directory")
    if os.geteuid() == 0:
        shutil.copytree(lab.repo, theirs, symlinks=True)
        for path in (theirs, *theirs.rglob("*")):
            os.chown(path, 12345, 12345)
        refused(lab, *shlex.split(start), cwd=theirs, says="another user owns it")


def test_a_directory_that_is_gone_is_one_line_for_every_command(lab: Lab) -> None:
    for words in ("--status", "--stop", "logs", "ledger verify", "x"):
        gone = lab.root / "gone"
        gone.mkdir()
        command = ["sh", "-c", 'rmdir "$0"; exec "$@"', str(gone), *COMMAND, *words.split()]
        ran = subprocess.run(command, cwd=gone, env=lab.env, capture_output=True, text=True)
        assert ran.returncode == REFUSED
        assert ran.stderr == "orchconverge: the current directory is gone\n  cd to one that exists\n"


OPERATIONS = {
    "merge": ["merge", "theirs"],
    "rebase": ["rebase", "theirs"],
    "cherry-pick": ["cherry-pick", "theirs"],
    "revert": ["revert", "HEAD~1"],
    "bisect": ["bisect", "start"],
}


def test_in_the_middle_of_an_operation_nothing_starts_and_nothing_is_touched(topic: Lab) -> None:
    """B144 B163."""
    for text in ("one", "two", "three"):
        (topic.repo / "README.md").write_text(f"{text}\n")
        topic.git("commit", "-q", "-a", "-m", text)
    topic.git("switch", "-q", "-c", "theirs", "main")
    (topic.repo / "README.md").write_text("theirs\n")
    topic.git("commit", "-q", "-a", "-m", "theirs")
    topic.git("switch", "-q", "topic")
    for operation, words in OPERATIONS.items():
        subprocess.run(["git", *words], cwd=topic.repo, env=topic.env, capture_output=True)
        before = topic.git("status", "--porcelain=v2", "--branch")
        how = "--worktree" if operation == "rebase" else "--allow-dirty"
        refused(topic, *options(topic), how, "x", says=f"a {operation} is in progress")
        assert topic.git("status", "--porcelain=v2", "--branch") == before
        topic.git(operation, "reset" if operation == "bisect" else "--abort")


def test_dirty_trees_are_refused_in_place_by_name_and_left_alone_by_worktrees(topic: Lab) -> None:
    (topic.repo / "README.md").write_text("mine\n")
    for number in range(3):
        (topic.repo / f"new\x1b[3{number}m").touch()
    refused(topic, *options(topic), "x", says="not clean: README.md, new, new and 1 more")
    before = topic.git("status", "--porcelain=v2")
    topic.run("--foreground", *options(topic), "--into", "main", "--worktree", "reach it", code=CONVERGED)
    assert topic.git("status", "--porcelain=v2") == before


def test_a_submodule_is_no_obstacle_in_a_worktree(topic: Lab) -> None:
    """B135 P20."""
    source = topic.root / "source"
    topic.git("init", "-q", str(source), cwd=topic.root)
    topic.git("commit", "-q", "--allow-empty", "-m", "s", cwd=source)
    topic.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(source), "module")
    topic.git("commit", "-q", "-m", "submodule")
    away(topic)
    assert topic.git("ls-tree", "topic", "module").startswith("160000")


# --- branches --------------------------------------------------------------------------------------------------------

BRANCH = "feat/x.y'q\"#(touch${IFS}canary1)$(touch${IFS}canary2)`touch${IFS}canary3`;%p{}/@/" + "é" * 60 + "x" * 100


def test_a_branch_of_any_name_converges_in_place_and_through_tmux(topic: Lab) -> None:
    """B1 B9 B130."""
    topic.git("switch", "-q", "-c", BRANCH)
    away(topic, "f0")
    assert topic.git("log", "-1", "--format=%s", f"refs/heads/{BRANCH}", cwd=topic.remote).startswith("docs:")
    assert topic.git("status", "--porcelain") == ""
    here(topic, "f1")
    assert {fact.target for fact in topic.facts(e.BasinDeclared)} == {BRANCH}
    assert not list(topic.root.rglob("canary*"))


def test_the_default_branch_and_a_detached_head_get_a_branch_of_the_goals_own(lab: Lab) -> None:
    """B120 B124 B130."""
    head = lab.git("rev-parse", "main")
    for goal in ("on main", "on a detached head"):
        before = lab.git("status", "--porcelain=v2", "--branch")
        lab.run("--foreground", *options(lab), goal, code=CONVERGED)
        assert lab.git("status", "--porcelain=v2", "--branch") == before
        lab.git("switch", "-q", "--detach")
    assert lab.git("rev-parse", "main") == head
    assert {"orchconverge/on-main", "orchconverge/on-a-detached-head"} <= set(
        lab.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").splitlines()
    )
    refused(lab, *options(lab), "--here", "x", says="--here would work on a detached HEAD")
    for name in ("-x", "a\nb"):
        refused(lab, *options(lab), "--into", name, "x", says="there is no branch")


# --- environments ----------------------------------------------------------------------------------------------------

PERSONS_TMUX = """set -g destroy-unattached on
set -g default-command "touch {0}/canary1"
run-shell "touch {0}/canary2; sleep 3"
set-hook -g session-created "kill-server"
"""


def open_to_others(lab: Lab) -> list[str]:
    """What we made that anybody but its owner may enter, read or write; checked-out files lie in a closed folder."""
    made = [lab.state_dir, *(lab.home / "state").rglob("*"), *(lab.home / "data").rglob("*"), *lab.state_dir.rglob("*")]
    return [f"{path.lstat().st_mode:o} {path}" for path in made if stat.S_IMODE(path.lstat().st_mode) & 0o077]


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_hostile_environment_changes_nothing(topic: Lab, umask: int) -> None:
    """B13 B16 B18 B27 B28 B181, P4 P5 P7: another tmux around, its config, no locale, any umask."""
    (topic.home / ".tmux.conf").write_text(PERSONS_TMUX.format(topic.root))
    for name in ("TERM", "LANG", "TMPDIR", *(["HOME"] if umask else [])):
        del topic.env[name]
    hostile = {
        "LC_ALL": "C",
        "TMUX": f"{topic.root}/other,1,0",
        "TMUX_PANE": "%0",
        **dict.fromkeys(("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"), "/nowhere"),
        **{
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": f"touch {topic.root}/canary3",
        },
    }
    if umask:  # without a HOME git knows nobody
        hostile |= {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    topic.env |= hostile
    old = os.umask(umask)
    try:
        topic.run(*options(topic), "--worktree", "--final", "push", "reach it é", code=CONVERGED)
        topic.run("wait", "--timeout", "30", code=CONVERGED)
    finally:
        os.umask(old)
        for name in hostile:
            topic.env.pop(name)
        topic.env |= {"HOME": str(topic.home)}
    assert open_to_others(topic) == []
    assert not list(topic.root.glob("canary*"))
    assert topic.reports("topic")


def shell(lab: Lab, line: str, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Our command with redirections of a shell."""
    command = ["sh", "-c", f'exec "$@" {line}', "sh", *COMMAND, *words]
    ran = subprocess.run(command, cwd=lab.repo, env={**lab.env, **(env or {})}, capture_output=True, timeout=30)
    assert b"Traceback" not in ran.stderr, ran.stderr
    return ran


def test_closed_and_full_streams_are_no_fault_of_ours(topic: Lab) -> None:
    assert shell(topic, "<&- >&- 2>&-", "--foreground", *options(topic), "reach it é").returncode == CONVERGED
    assert shell(topic, "<&-", *options(topic), "-").returncode == REFUSED
    for words in (["--status"], ["logs"], ["--status", "--json"]):
        assert shell(topic, ">&-", *words).returncode == 0
        full = shell(topic, ">/dev/full", *words)
        assert (full.returncode, b"No space left on device" in full.stderr) == (1, True)
    assert shell(topic, "| head -c 1", "report").stderr == b""


def test_a_terminal_without_utf8_gets_other_characters_and_json_stays_json(topic: Lab) -> None:
    topic.run("--foreground", *options(topic), "reach it é …", code=CONVERGED)
    plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in (["--status"], ["status", "-v"], ["report"], ["logs"], ["wait"]):
        ran = shell(topic, "", *words, env=plain)
        assert ran.returncode == 0
        assert ran.stdout.isascii()
    assert "é" in shell(topic, "", "--status", "--json", env=plain).stdout.decode("utf-8")


def test_without_git_tmux_or_room_for_a_socket_nothing_is_declared(topic: Lab) -> None:
    """B87 P36."""
    programs = topic.root / "bin"
    programs.mkdir()
    refused(topic, *options(topic), "x", says="git does not run here", env={"PATH": str(programs)})
    for name in ("git", "env", "sh"):
        (programs / name).symlink_to(shutil.which(name) or "")
    refused(topic, *options(topic), "x", says="tmux is not installed", env={"PATH": str(programs)})
    refused(topic, "--foreground", *options(topic), "x", says="tmux is not installed", env={"PATH": str(programs)})
    deep = topic.root / ("d" * 100)
    deep.mkdir()
    refused(topic, *options(topic), "x", says="tmux cannot listen at", env={"TMUX_TMPDIR": str(deep)})
    assert topic.run("--status", code=0, env={"PATH": str(programs)}).stdout
    refused(topic, "--status", says="is not absolute", env={"ORCHCONVERGE_STATE_DIR": "some where"})


def test_a_settings_file_that_a_mind_broke_keeps_nobody_from_stopping(topic: Lab) -> None:
    topic.keeps_worktrees = True
    topic.run(
        *options(topic, mind=f"echo '[[[' > orchconverge.toml; touch {topic.root}/up; sleep 300\n"), "reach it", code=0
    )
    topic.until((topic.root / "up").exists)
    refused(topic, "--resume", says="orchconverge.toml is not TOML")
    topic.run("--status", code=0)
    topic.run("--stop", code=0)
    assert topic.facts(e.RunStopped)[-1].reason == "stopped"


# --- disks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mount(topic: Lab) -> Iterator[Path]:
    """An empty folder for the state, where a run's own mount namespace has a file system of its own."""
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    place = topic.root / "state"
    place.mkdir()
    topic.env |= {"ORCHCONVERGE_STATE_DIR": str(place), "ORCHCONVERGE_DISK_FLOOR_BYTES": "0"}
    yield place


def mounted(place: Path, how: str, words: Sequence[str]) -> list[str]:
    return ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {how} tmpfs "$0" && exec "$@"', str(place), *words]


def test_a_full_disk_is_said_and_waited_for_and_nothing_acknowledged_is_lost(topic: Lab, mount: Path) -> None:
    """B172 B177 P28: filled by the mind, freed again by us; the run goes on by itself."""
    mind = f"head -c 9000000 /dev/zero > {mount}/fill; touch done && {COMMIT}"
    command = [*COMMAND, "--foreground", *options(topic, mind=mind), "reach it"]
    run = subprocess.Popen(
        mounted(mount, "size=500k", command), cwd=topic.repo, env=topic.env, stderr=subprocess.PIPE, text=True
    )
    inside = Path(f"/proc/{run.pid}/root{mount}")
    assert run.stderr is not None
    said = ""
    while "Nothing is acknowledged; trying again" not in said:
        said = run.stderr.readline()
        assert said, "the run ended"
    assert (inside / "fill").stat().st_size > 100_000
    kept = (inside / "ledger.jsonl").read_bytes()
    kept = kept[: kept.rindex(b"\n") + 1]
    (inside / "fill").unlink()
    looking = os.open(inside, os.O_RDONLY)  # keeps the file system after its last process
    try:
        said = run.communicate(timeout=30)[1]
        assert (run.returncode, "Traceback" in said) == (CONVERGED, False), said
        after = Path(f"/proc/self/fd/{looking}/ledger.jsonl").read_bytes()
    finally:
        os.close(looking)
    assert after.startswith(kept)
    topic.repo.joinpath(".git", "orchconverge").mkdir()
    topic.ledger.write_bytes(after)
    topic.ledger.chmod(0o600)
    del topic.env["ORCHCONVERGE_STATE_DIR"]
    assert ", the last line is torn" not in topic.run("ledger", "verify").stdout
    assert "Status: CONVERGED" in topic.run("--status", code=0).stdout


def test_a_read_only_state_is_one_line(topic: Lab, mount: Path) -> None:
    for words in ([*options(topic), "x"], ["--foreground", *options(topic), "x"]):
        command = mounted(mount, "ro", [*COMMAND, *words])
        ran = subprocess.run(command, cwd=topic.repo, env=topic.env, capture_output=True, text=True)
        first, hint, *rest = ran.stderr.splitlines()
        assert (ran.returncode, rest) == (FAILED, [])
        assert "could not be written: Read-only file system" in first
        assert "ORCHCONVERGE_STATE_DIR" in hint


# --- what is stored --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_damaged_ledger_is_read_around_and_an_unreadable_one_is_never_empty(topic: Lab) -> None:
    """B171 B174 B175 B183 T8."""
    here(topic)
    good = topic.ledger.read_bytes()
    lines = good.splitlines(keepends=True)
    future = b'{"type":"moon.landed","v":9,"seq":%d,"at":"2031-01-01T00:00:00Z","writer":"cli","x":[{}]}\n' % (
        len(lines) + 1
    )
    damaged = [*lines[:5], b'{"type":"\xff\xfe\n', b"\n", b"x" * 300_000 + b"\n", *lines[5:], future]
    topic.ledger.write_bytes(b"".join(damaged))
    said = topic.run("ledger", "verify", code=1).stdout
    assert f"{len(damaged) - 1} lines, 2 damaged, 0 illegal, 1 of a newer version" in said
    topic.run("report", code=0)
    assert "damaged" in topic.run("status", "--line", code=0).stdout
    here(topic, "again")
    assert topic.ledger.read_bytes().startswith(b"".join(damaged))
    topic.run("ledger", "verify", code=1)

    other = topic.state_dir / "other"
    odd = {
        "not a regular file": topic.ledger.mkdir,
        "a symbolic link": lambda: topic.ledger.symlink_to(other),
        "second hard link": lambda: topic.ledger.hardlink_to(other),
    }
    for says, make in odd.items():
        topic.ledger.rename(other)
        make()
        for words in ("--status", "--stop"):
            shown = topic.run(*words.split(), code=REFUSED).stderr
            assert says in shown
        assert says in topic.run(*options(topic), "x", code=REFUSED).stderr
        topic.ledger.rmdir() if topic.ledger.is_dir() and not topic.ledger.is_symlink() else topic.ledger.unlink()
        other.rename(topic.ledger)


def test_a_corrupt_missing_or_planted_export_is_rebuilt_and_never_believed(topic: Lab) -> None:
    here(topic, "a")
    top, own = (
        topic.state_dir / "convergence_state.json",
        topic.state_dir / "basins" / "reach-it" / "convergence_state.json",
    )
    whole = top.read_bytes()
    top.write_text('{"status": "converged", "seq": 1, ')
    own.write_bytes(b"\0" * 99)
    assert "Status: CONVERGED" in topic.run("--status", code=0).stdout
    secret = topic.root / "secret"
    secret.write_bytes(whole)
    top.unlink()
    top.symlink_to(secret)
    here(topic, "b")
    assert not top.is_symlink()
    assert secret.read_bytes() == whole
    assert json.loads(top.read_bytes())["status"] == json.loads(whole)["status"]
