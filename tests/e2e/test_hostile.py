"""Hostile goals, criteria and minds, on the real command line: everything is data, and what a mind does is checked or said."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchconverge.adapters.clock import SystemClock
from orchconverge.adapters.ledger import FileLedger
from orchconverge.app import handover
from orchconverge.core import events as e
from orchconverge.core.target import Criterion, Termination
from orchconverge.core.values import Limits, Settings
from tests.e2e.lab import COMMAND, Lab, kill

pytestmark = pytest.mark.tmux

COMMIT = "git add -A && git commit -q -m work\n"
DONE = f"touch done && {COMMIT}"
CONVERGED, FAILED, REFUSED, LIMIT, PERSON, STOPPED = 0, 1, 2, 3, 5, 130


def options(lab: Lab, mind: str, *more: str, attempts: int = 1, final: str = "none") -> list[str]:
    """The arguments of a short run whose minds are this shell script, kept outside of the repository."""
    path = lab.root / "mind.sh"
    path.write_text(f"#!/bin/sh\n{mind}")
    path.chmod(0o755)
    given = ["--final", final, "--interval", "0", "--max-attempts", str(attempts)]
    given += ["--engine", "command", "--argv", str(path), *more]
    return (
        given if any(word.startswith("--criterion") for word in more) else [*given, "--criterion", "done=test -f done"]
    )


def drive(lab: Lab, mind: str, *more: str, goal: str = "reach it", code: int = CONVERGED, **how: Any) -> str:
    """Run a goal in the foreground, in place on `topic`; what it said on stderr."""
    shape = {name: how.pop(name) for name in ("attempts", "final") if name in how}
    arguments = options(lab, mind, *more, **shape)
    return lab.run("--foreground", *arguments, "--", goal, code=code, **how).stderr


def on_topic(lab: Lab) -> Lab:
    lab.git("switch", "-q", "-c", "topic")
    return lab


@pytest.fixture
def topic(lab: Lab) -> Lab:
    return on_topic(lab)


def parked(lab: Lab, mind: str, *more: str) -> tuple[subprocess.Popen[bytes], e.RunWaiting]:
    """Start a run whose mind makes it wait for a person."""
    lab.keeps_worktrees = True
    command = [*COMMAND, "--foreground", *options(lab, mind, *more), "reach it"]
    run = subprocess.Popen(command, cwd=lab.repo, env=lab.env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    return run, lab.fact(e.RunWaiting)


def ended(run: subprocess.Popen[bytes], code: int) -> None:
    said = run.communicate(timeout=30)[1].decode()
    assert (run.returncode, "Traceback" in said) == (code, False), said


def refused(lab: Lab, *args: str, says: str, code: int = REFUSED, **how: Any) -> None:
    """It is one line, a hint and the code, and nothing was written down or started."""
    before = lab.lines()
    said = lab.run(*args, code=code, **how).stderr
    first, hint, *rest = said.splitlines()
    assert first.startswith("orchconverge: ")
    assert says in first
    assert hint.startswith("  ")
    assert hint.strip()
    assert rest == []
    assert lab.lines() == before


# --- goals -----------------------------------------------------------------------------------------------------------

NASTY = (
    "quotes ' \" \\ $(touch {0}/canary1) `touch {0}/canary2` ; touch {0}/canary3; #(touch {0}/canary4) #{{pid}} %s %% ~\n"
    "second line, --max-attempts 7\r\nCRLF\r\n\n\t| & > < * ? [a] {{b}} ! \N{GRINNING FACE} é e\u0301 \u202e\u200b "
    "\x1b[31mred\x1b]0;t\x07 \x9b ends in a semicolon;"
)


def brief_of(goal: bytes, found: bytes) -> bool:
    """Whether a brief holds the goal byte for byte where it belongs, by digest."""
    begins = len(b"# Goal\n\n")
    held, rest = found[begins : begins + len(goal)], found[begins + len(goal) :]
    return hashlib.sha256(held).digest() == hashlib.sha256(goal).digest() and rest.startswith(b"\n\n# Criteria\n")


def test_goals_arrive_byte_for_byte_and_are_never_run(topic: Lab) -> None:
    """B37 B39 B42 B43 B45 B48 B51."""
    big, line = "x" * 200_000 + "\nlast, without an end", "y " * 100_000
    (topic.root / "goal.txt").write_bytes(big.encode())
    dash = "--status -x `touch canary5`"
    sent: list[tuple[str, Sequence[str], bytes]] = [
        (dash, ["--", dash], b""),
        (big, ["--goal-file", str(topic.root / "goal.txt")], b""),
        (line, ["-"], line.encode()),
    ]
    for number, (goal, words, stdin) in enumerate(sent):
        mind = f"cat > {topic.root}/brief; touch f{number} && {COMMIT}"
        arguments = options(topic, mind, "--criterion", f"done=test -f f{number}")
        topic.run("--foreground", *arguments, *words, input=stdin, code=CONVERGED)
        assert brief_of(goal.encode(), (topic.root / "brief").read_bytes()), number
    assert list(topic.root.rglob("canary*")) == []


def test_a_nasty_goal_goes_through_tmux_graft_push_and_report_and_runs_nothing(topic: Lab) -> None:
    goal = NASTY.format(topic.root)
    topic.run(*options(topic, f"cat > {topic.root}/brief; {DONE}", "--worktree", final="push"), goal, code=0)
    topic.wait()
    assert brief_of(goal.encode(), (topic.root / "brief").read_bytes())
    assert topic.facts(e.BasinDeclared)[0].goal == goal
    shown = [topic.run(*words, code=0).stdout for words in (["--status"], ["logs"], ["report"], ["status", "-v"])]
    shown += [topic.git("log", "--format=%B", "topic"), topic.git("show", f"topic:{topic.reports('topic')[0]}")]
    assert [hidden for text in shown for hidden in escapes(text)] == []
    assert list(topic.root.rglob("canary*")) == []


def escapes(text: str) -> list[str]:
    """The characters in it that would reach a terminal as more than a letter."""
    return [
        f"{ord(c):#x}" for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0" or c in "\u202e\u200b"
    ]


def test_a_goal_that_cannot_be_taken_is_one_line_and_a_hint(topic: Lab) -> None:
    file = topic.root / "goal.bin"
    mind = options(topic, "true")
    for data, says in ((b"a\0b", "NUL"), (b"\xed\xa0\x80", "UTF-8"), (b" \n\t ", "blank")):
        file.write_bytes(data)
        refused(topic, *mind, "--goal-file", str(file), says=says)
    refused(topic, *mind, "-", says="blank", input=b"")
    refused(topic, *mind, "-", says="UTF-8", input=b"\xc3")
    refused(topic, *mind, os.fsdecode(b"bad \xff"), says="UTF-8")
    refused(topic, *mind, "--goal-file", str(topic.root / "none"), says="No such file")
    refused(topic, *mind, "two", "--goal-file", str(file), says="both")


# --- criteria --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_criteria_that_mean_nothing_are_refused_with_what_to_write(topic: Lab) -> None:
    mind = options(topic, "true", "--criterion=")[:-1]
    for given, says in (
        ("$(touch canary)=true", "name of a criterion"),
        ("a\nb=true", "name of a criterion"),
        ("x= ", "nothing after the ="),
        ("nonsense", "no kind of criterion"),
        ("changed", "nothing can be gained"),
        ("tests", "how tests are run"),
    ):
        refused(topic, *mind, "--criterion", given, "reach it", says=says)
    refused(topic, *mind, "reach it", says="nothing can be gained")
    refused(topic, *mind, "--criterion=a=true", "--criterion=a=false", "reach it", says="two criteria")
    assert list(topic.root.rglob("canary*")) == []


def test_a_goal_that_everything_satisfies_already_is_refused(topic: Lab) -> None:
    said = topic.run(*options(topic, "true", "--criterion", "a=true"), "reach it", code=REFUSED).stderr
    assert said.splitlines() == [
        "orchconverge: everything that is checked holds already, so nothing would show that the goal is met",
        "  add --criterion NAME=COMMAND for what is still missing",
    ]
    assert topic.facts(e.BranchSpawned) == []


def test_criteria_that_flood_fork_or_cannot_start_are_told_apart(topic: Lab) -> None:
    given = {
        "flood": "head -c 50000000 /dev/zero; test -f done",
        "forks": "setsid sleep 300 & (setsid sh -c 'trap \"\" HUP; sleep 301' &); test -f done",
        "quoted": "test \"$(cat 'done' && echo `echo ok`)\" = ok # '",
        "denied": "./README.md",
        "absent": "no-such-program --flag",
    }
    words = [word for name, command in given.items() for word in ("--criterion", f"{name}={command}")]
    drive(topic, DONE, *words, code=LIMIT)
    judged = {x.criterion: (x.met, x.exit) for x in topic.facts(e.BranchCandidate)[0].evidence if x.criterion in given}
    ok = ("yes", 0)
    assert judged == {"flood": ok, "forks": ok, "quoted": ok, "denied": ("error", 126), "absent": ("error", 127)}
    assert max(path.stat().st_size for path in (topic.state_dir / "evidence").iterdir()) < 10 << 20
    assert max(map(len, topic.lines().splitlines())) < 64 << 10


def test_a_criterion_that_hangs_is_ended_at_its_deadline_and_is_not_met(topic: Lab) -> None:
    hangs = Criterion(name="hangs", command="(setsid sleep 300 &); sleep 301", deadline=0.5)
    ledger = FileLedger(topic.state_dir, SystemClock())
    shape = {"title": "x", "macrostate": "x", "goal": "x", "target": "topic", "termination": Termination(attempts=1)}
    ledger.append(e.BasinDeclared(basin="x", criteria=(hangs,), **shape), writer="cli")  # type: ignore[arg-type]
    ledger.close()
    settings = Settings(
        checkout=str(topic.repo),
        place="here",
        engines=("command",),
        argv=("/bin/sh", "-c", DONE),
        base=topic.git("rev-parse", "HEAD"),
    )
    note = handover.Handover(cwd=str(topic.repo), settings=settings, limits=Limits(attempts=1), env=topic.env)
    handover.write(topic.state_dir, "x", note)
    topic.run("_drive", str(topic.state_dir), "x", code=LIMIT)
    [found] = topic.facts(e.BranchCandidate)[0].evidence
    assert (found.met, "deadline" in found.excerpt) == ("no", True)
    assert found.seconds < 3


def test_a_run_is_stopped_in_the_middle_of_a_hanging_criterion(topic: Lab) -> None:
    hangs = f"hangs=touch {topic.root}/hangs; setsid sleep 300 & sleep 301"
    command = [*COMMAND, *options(topic, "true", "--criterion", hangs), "reach it"]
    start = subprocess.Popen(command, cwd=topic.repo, env=topic.env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    topic.until((topic.root / "hangs").exists)
    began = time.monotonic()
    topic.run("--stop", code=0)
    assert time.monotonic() - began < 10
    assert topic.facts(e.RunStopped)[-1].reason == "stopped"
    ended(start, CONVERGED)  # it was started, which is all that the starting command says


# --- minds -----------------------------------------------------------------------------------------------------------


def test_what_a_mind_commits_elsewhere_is_never_credited(topic: Lab) -> None:
    """B69 B115 B117 B126: another branch in place, a claim without a commit, an exit 0 in no time."""
    report = """echo '{"summary": "ALL DONE", "verdict": null}' > "$ORCHCONVERGE_REPORT"\n"""
    base = topic.git("rev-parse", "topic")
    said = drive(topic, f"git switch -q -c evil; {DONE}git switch -q topic\necho SUCCESS\n{report}", code=LIMIT)
    assert "committed nothing, though it ended by itself" in said
    assert topic.git("rev-parse", "topic") == base
    assert topic.git("log", "-1", "--format=%s", "evil") == "work"


def test_uncommitted_work_is_kept_and_no_success(topic: Lab) -> None:
    """B114 B121, with names that are no UTF-8, in two attempts."""
    mind = 'touch done "$(printf \'odd\\377\\033[31m\')" "$(date +%N)"\n'
    drive(topic, mind, "--max-hours", "1", code=LIMIT, attempts=2)
    assert [fact.reason.partition(":")[0] for fact in topic.facts(e.BranchFailed)] == [
        "committed nothing, though it ended by itself; what it left uncommitted is kept"
    ] * 2
    kept = topic.git("ls-tree", "--name-only", "refs/orchconverge/keep/reach-it.1-leftovers").splitlines()
    assert "done" in kept
    assert escapes(topic.run("status", "--verbose", code=0).stdout) == []


def test_a_mind_that_leaves_another_branch_checked_out_parks_the_run_and_nothing_is_switched_back(topic: Lab) -> None:
    """B126 B139 B147."""
    run, waits = parked(topic, f"git switch -q -c evil; {DONE}")
    assert (waits.reason, "the checkout is on evil" in waits.text) == ("branch", True)
    topic.run("--stop", code=0)
    ended(run, STOPPED)
    assert topic.git("branch", "--show-current") == "evil"


def test_a_rewound_target_is_no_candidate_and_is_not_moved_again(topic: Lab) -> None:
    topic.git("commit", "-q", "--allow-empty", "-m", "second")
    said = drive(topic, f"git reset -q --hard HEAD~1; {DONE}", code=LIMIT)
    assert "does not descend from its base" in said
    assert topic.git("log", "--format=%s", "topic").splitlines() == ["work", "init"]


PLANTED = """H=$(git rev-parse --git-common-dir)/hooks; mkdir -p $H
for hook in post-commit post-merge reference-transaction; do printf '#!/bin/sh\\ntouch {0}/canary\\n' > $H/$hook; done
chmod +x $H/*; git config core.fsmonitor 'touch {0}/canary; false'
"""


def test_planted_hooks_and_settings_park_the_run_also_after_its_controller_was_killed(topic: Lab) -> None:
    """T4: what was planted never runs, and is not forgotten by a resume."""
    run, waits = parked(topic, DONE + PLANTED.format(topic.root), "--worktree")
    assert waits.reason == "tamper"
    kill(run.pid)
    assert run.wait() == -signal.SIGKILL
    run.communicate()
    topic.run("--resume", code=0)
    assert topic.fact(e.RunWaiting, 2).reason == "tamper"
    assert "Look at git's hooks and config" in topic.run("status", "--verbose", code=0).stdout
    assert topic.git("log", "-1", "--format=%s", "topic") == "init"
    topic.run("--stop", code=0)
    topic.git("config", "--unset", "core.fsmonitor")
    for hook in ("post-commit", "post-merge", "reference-transaction"):
        (topic.repo / ".git" / "hooks" / hook).unlink()
    topic.run("--resume", "--foreground", code=CONVERGED)
    assert not (topic.root / "canary").exists()
    topic.keeps_worktrees = False


def test_a_mind_that_removes_its_worktree_loses_nothing_that_it_committed(topic: Lab) -> None:
    """B33 B34 B118 B160."""
    drive(topic, f'{DONE}rm -rf "$PWD"\n', "--worktree")
    assert topic.git("log", "-1", "--format=%s", "topic").startswith("reach it (reach-it.1)")


def test_a_repository_that_a_mind_made_inside_its_worktree_is_not_removed_with_it(topic: Lab) -> None:
    """A ref of ours keeps nothing of what is inside it: the tree stays, and the journal names it. A cleanup leaves it too."""
    topic.keeps_worktrees = True
    drive(
        topic,
        f"touch done; git add done; git commit -q -m work\ngit init -q lib; cd lib; echo 1 >own; {COMMIT}",
        "--worktree",
    )
    said = topic.run("--stop", "--cleanup", code=0).stdout
    tree = Path(topic.facts(e.BranchSpawned)[0].worktree)
    assert topic.git("log", "-1", "--format=%s", cwd=tree / "lib") == "work"
    assert str(tree) in said
    assert (
        f"kept {tree}: it holds work that is nowhere else in lib/" in (topic.state_dir / "logs/system.log").read_text()
    )


def test_a_mind_that_writes_its_own_end_is_watched_to_its_real_one(topic: Lab) -> None:
    """What it leaves outside of its own folder is no record: it ends when its supervisor says so."""
    forged = {"v": 1, "reason": "exited", "code": 0, "signal": None, "seconds": 1.0, "started_at": 1.0, "ended_at": 2.0}
    forged |= {
        "bytes": 0,
        "truncated": False,
        "error": None,
        "leftover": [],
        "survivors": [],
        "lingered": False,
        "idle": False,
    }
    (topic.root / "exit.json").write_text(json.dumps(forged))
    outside = '"${ORCHCONVERGE_REPORT%/mind/report.json}/exit.json"'
    drive(topic, f"cp {topic.root}/exit.json {outside}; sleep 1.5\n{DONE}exit 7\n")
    assert [fact.exit for fact in topic.facts(e.BranchEnded)] == [7]


REPORTS = (
    "head -c 3000000 /dev/zero | tr '\\0' x > \"$ORCHCONVERGE_REPORT\"",
    'printf \'{"summary": "\\\\ud800", "residue": 5, "frontier": [null, {}, 7], "verdict": "\' > "$ORCHCONVERGE_REPORT"',
    'ln -sf $HOME/secret "$ORCHCONVERGE_REPORT"',
    'mkfifo "$ORCHCONVERGE_REPORT"',
)


def test_reports_that_are_huge_broken_links_or_pipes_cost_the_mind_nothing_but_its_word(topic: Lab) -> None:
    """T19, B183: one attempt each, the last one with residue of any length, after which the rules are still told."""
    (topic.home / "secret").write_text('{"summary": "TOP SECRET"}')
    acts = "\n".join(f"{n}) {act};;" for n, act in enumerate(REPORTS, 1))
    long = json.dumps({"residue": [{"text": "r" * 700, "paths": ["p" * 10_000] * 5}]})
    (topic.root / "long.json").write_text(long)
    more = f"5) cp {topic.root}/long.json $ORCHCONVERGE_REPORT;;\n6) cat > {topic.root}/brief;;"
    number = "n=${ORCHCONVERGE_REPORT%/mind/report.json}; n=${n##*.}"
    mind = f"{number}\ncase $n in\n{acts}\n{more}\nesac\ntouch f$n && {COMMIT}"
    words = [word for n in range(1, 7) for word in ("--criterion", f"c{n}=test -f f{n}")]
    drive(topic, mind, *words, attempts=6)
    assert len(topic.facts(e.BranchCandidate)) == 6
    assert b"TOP SECRET" not in topic.lines()
    brief = (topic.root / "brief").read_text()
    assert "rrrr" in brief
    assert "# Rules" in brief
    assert str(topic.minds / "minds" / "reach-it.6" / "mind" / "report.json") in brief


def test_escape_sequences_of_a_mind_reach_no_terminal(topic: Lab) -> None:
    """B184, T3: in its output, its report, its commit and a file's name."""
    hostile = "\\033]52;c;QUFB\\007\\033[31mred\\033[0m\\302\\233\\r\\033]0;title\\007\\342\\200\\256bidi"
    report = (
        r'{"summary": "\u001b]0;x\u0007 sum \u202e", "residue": ["\u001b[31mres \u009b"], "frontier": ["q\u001b[2J"]}'
    )
    (topic.root / "report.json").write_text(report)
    mind = f"""printf '{hostile}\\n'; printf '{hostile}' >&2; cp {topic.root}/report.json "$ORCHCONVERGE_REPORT"
touch done "$(printf 'n\\033[31m')"; git add -A; git commit -q -m "$(printf '{hostile}')"\n"""
    said = drive(topic, mind, final="push")
    looks = (
        ["--status"],
        ["status", "-v"],
        ["--status", "--json"],
        ["logs"],
        ["logs", "reach-it.1"],
        ["report"],
        ["wait"],
    )
    shown = [said, *(topic.run(*look, code=0).stdout for look in looks)]
    shown += [
        topic.git("show", f"topic:{topic.reports('topic')[0]}"),
        (topic.state_dir / "pr" / "reach-it.json").read_text(),
    ]
    assert [found for text in shown for found in escapes(text)] == []
    assert "\x1b" in topic.run("logs", "reach-it.1", "--raw", code=0).stdout


def test_a_mind_reaches_neither_our_tmux_server_nor_our_commands(topic: Lab) -> None:
    """B76 B30 B31, T11, T12: `tmux kill-server` is its own server's; our commands refuse it."""
    ours = " ".join(COMMAND)
    mind = f"""exec 2> {topic.root}/said
until test -e {topic.root}/go; do sleep 0.05; done
tmux kill-server; tmux -L orchconverge kill-server
{ours} --stop; echo $? >&2; env -i PATH="$PATH" {ours} --stop; echo $? >&2; env -u ORCHCONVERGE_BRIEF {ours} --resume; echo $? >&2
{ours} --status > {topic.root}/status; echo $? >&2
{DONE}"""
    topic.run(*options(topic, mind), "reach it", code=0)
    server = topic.server()
    (topic.root / "go").touch()
    topic.wait()
    said = (topic.root / "said").read_text()
    assert said.count("this is a mind: it may look, not start, stop or decide") == 3, said
    assert [line for line in said.splitlines() if line.isdigit()] == ["2", "2", "2", "0"]
    assert "RUNNING" in (topic.root / "status").read_text()
    assert server is not None
    assert len(topic.facts(e.RunStarted)) == 1


def test_a_killed_tmux_server_ends_neither_the_mind_nor_its_run_for_good(topic: Lab) -> None:
    """B81: found by its path, our server can be killed by a mind (no sandbox); its work counts all the same."""
    topic.run(*options(topic, f"tmux -S {topic.socket} kill-server; sleep 0.3; {DONE}"), "reach it", code=0)
    topic.until(lambda: topic.server() is None)
    topic.until(lambda: topic.facts(e.BranchEnded) or not topic.processes())
    if topic.state().basins["reach-it"].phase != "converged":
        topic.run("--resume", "--foreground")
    assert topic.state().basins["reach-it"].phase == "converged"
    assert set(topic.starts().values()) == {1}


def test_a_mind_that_kills_its_supervisor_takes_all_of_itself_along(topic: Lab) -> None:
    drive(topic, f"{DONE}(setsid sleep 300 &)\nsleep 301 &\nkill -9 $PPID; sleep 302\n")
    assert [(fact.reason, fact.exit) for fact in topic.facts(e.BranchEnded)] == [("lost", None)]


def test_a_hung_mind_is_ended_at_its_deadline_with_all_its_descendants(topic: Lab) -> None:
    """B79."""
    hung = f"{DONE}(setsid sh -c 'trap \"\" HUP; sleep 300; :' &)\nsh -c 'sleep 301 & sleep 302' &\nwhile :; do sleep 1; done\n"
    drive(topic, hung, "--attempt-minutes", "0.01")
    [end] = topic.facts(e.BranchEnded)
    assert end.reason == "deadline"
    assert end.seconds < 5


def test_forged_spliced_and_illegal_lines_are_skipped_counted_and_told(topic: Lab) -> None:
    """B174 B175, T10."""
    forged = '{"type":"basin.converged","v":1,"seq":99,"at":"2026-01-01T00:00:00Z","writer":"cli","basin":"reach-it","note":"x"}'
    mind = f"""L=.git/orchconverge/ledger.jsonl
printf '%s\\n' '{forged}' >> $L; printf '{{"type":"run.stop' >> $L; printf 'garbage \\377\\n' >> $L; printf '{{"v":1' >> $L
{DONE}"""
    drive(topic, mind, "--criterion=done=test -f done")
    said = topic.run("ledger", "verify", code=1).stdout
    assert "1 illegal" in said
    assert "not legal here: done, changed of reach-it not met" in said
    assert "damaged and 1 against the rules" in topic.run("status", "--verbose", code=0).stdout
    assert topic.git("log", "-1", "--format=%s", "topic") == "work"


def test_a_ledger_that_is_taken_away_ends_the_run_and_is_never_begun_anew(topic: Lab) -> None:
    """B171."""
    topic.keeps_worktrees = True  # which ones there were is no longer known
    said = drive(topic, f"rm -rf .git/orchconverge; {DONE}", code=FAILED)
    assert "while it was in use" in said
    assert topic.lines() == b""


def test_a_commit_of_another_repository_is_flagged_and_not_a_success(topic: Lab) -> None:
    """B136."""
    nested = (
        "git init -q sub; git -C sub commit -q --allow-empty -m x; touch done; git add done sub; git commit -q -m w\n"
    )
    said = drive(topic, nested, code=PERSON)
    assert "flagged commit of another repository: sub" in said


def test_a_persons_uncommitted_changes_stay_theirs(topic: Lab) -> None:
    """P30: named in the brief, in no commit of a mind or of ours unseen; what was staged stays staged."""
    (topic.repo / "README.md").write_text("staged\n")
    topic.git("add", "README.md")
    (topic.repo / "README.md").write_text("staged\nand more\n")
    (topic.repo / "untracked").write_text("mine")
    refused(topic, *options(topic, "true"), "reach it", says="not clean: README.md, untracked")
    before = topic.git("status", "--porcelain=v2")
    careful = f"cat > {topic.root}/brief; touch done; git add done; git commit -q -m work -- done\n"
    drive(topic, careful, "--allow-dirty", final="push")
    assert topic.git("status", "--porcelain=v2") == before
    assert "staged: `README.md`, `untracked`. Leave them out" in (topic.root / "brief").read_text()
    assert topic.git("diff", "--name-only", "main", "topic").splitlines()[:1] == [topic.reports("topic")[0]]
    said = drive(topic, f"touch b && {COMMIT}", "--allow-dirty", "--criterion=b=test -f b", code=PERSON)
    assert "flagged your uncommitted changes: README.md" in said


def test_a_criterion_that_only_our_own_report_could_meet_is_not_met_by_it(topic: Lab) -> None:
    drive(topic, "true", final="push", code=LIMIT)
    assert topic.reports("topic")
    topic.run("--resume", "--foreground", "--max-attempts", "2", "--final", "none", code=LIMIT)
    met = {x.criterion: x.met for x in topic.facts(e.BasinChecked)[-1].results}
    assert met["changed"] == "no"


def test_stale_git_locks_of_a_killed_git_are_explained(topic: Lab) -> None:
    """B153."""
    drive(topic, f"{DONE}touch .git/index.lock\n", final="push")
    detail = topic.facts(e.StepEnded)[-1].detail
    assert "index.lock" in detail
    assert "delete" in detail
    assert (topic.repo / ".git" / "index.lock").exists()
    Path(topic.repo / ".git" / "index.lock").unlink()
