"""`diff`, `overlap` and `matrix` on the real command line, over a ledger that the real adapter wrote and real commits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchconverge.adapters.clock import SystemClock
from orchconverge.adapters.ledger import FileLedger
from orchconverge.core import events as e
from orchconverge.core.target import Criterion, Sha, Termination
from orchconverge.core.values import ControllerId, Evidence, Limits, Process, Settings
from tests.e2e.lab import Lab

pytestmark = pytest.mark.tmux  # the lab's; nothing is started here

CRITERIA = ("docs", "enrol", "style", "verify")
BASE = "".join(f"line {number}\n" for number in range(1, 21))


class Wave:
    """A basin whose target is main, and one wave of branches that begin at its tip."""

    def __init__(self, lab: Lab, *, minds: int, met: Iterable[str] = ("style",), basin: str = "mfa") -> None:
        self.lab, self.basin = lab, basin
        self.ledger = FileLedger(lab.state_dir, SystemClock())
        (lab.repo / "code.py").write_text(BASE)
        self.base = self.commit("main")
        text = {"title": basin, "macrostate": basin, "goal": basin, "target": "main"}
        criteria = tuple(Criterion(name=name, command="true") for name in CRITERIA)
        stop = Termination(attempts=9)
        self.tell(e.BasinDeclared(basin=basin, criteria=criteria, termination=stop, **text))  # type: ignore[arg-type]
        settings = Settings(checkout=str(lab.repo), place="fresh", engines=("command",))
        held = ControllerId(host="h", boot="b", pid=1, start=1)
        self.tell(e.RunStarted(basin=basin, run="r", controller=held, settings=settings, limits=Limits(attempts=9)))
        self.check(met)
        turn: dict[str, Any] = {"strategy": "first", "why": "first", "engine": "command", "deadline": 60.0}
        self.tell(e.AttemptStarted(basin=basin, attempt=1, width=minds, **turn))
        self.tell(e.BasinOpened(basin=basin, wave=1))
        for number in range(1, minds + 1):
            self.spawned(number)

    def tell(self, fact: e.AnyFact) -> None:
        self.ledger.append(fact, writer="controller", active=0.0)

    def commit(self, branch: str) -> Sha:
        """Commit all that lies in the checkout onto a new branch, and go back to main."""
        if branch != "main":
            self.lab.git("checkout", "-q", "-b", branch)
        self.lab.git("add", "-A")
        self.lab.git("commit", "-q", "--allow-empty", "-m", "work")
        made = Sha(self.lab.git("rev-parse", "HEAD"))
        self.lab.git("checkout", "-q", "main")
        return made

    def evidence(self, met: Iterable[str], tree: str) -> tuple[Evidence, ...]:
        return tuple(Evidence(criterion=name, met="yes" if name in met else "no", tree=Sha(tree)) for name in CRITERIA)

    def check(self, met: Iterable[str]) -> None:
        head = Sha(self.lab.git("rev-parse", "main"))
        tree = self.lab.git("rev-parse", "main^{tree}")
        self.tell(e.BasinChecked(basin=self.basin, head=head, tree=Sha(tree), results=self.evidence(met, tree)))

    def spawned(self, number: int) -> None:
        name = f"{self.basin}.{number}"
        where: dict[str, Any] = {"worktree": f"trees/{number}", "place": "fresh", "engine": "command"}
        more: dict[str, Any] = {"approach": f"way {number}", "gitBranch": f"m-{number}"}
        self.tell(e.BranchSpawned(basin=self.basin, branch=name, base=self.base, **where, **more))
        process = Process(boot="b", pid=2, start=2)
        self.tell(e.BranchSearching(basin=self.basin, branch=name, session="s", process=process))

    def ended(self, number: int, files: Mapping[str, str | bytes]) -> Sha:
        """A mind commits these files and ends; its commits are kept and its branch is gone."""
        for name, text in files.items():
            path = Path(os.fsdecode(os.fsencode(self.lab.repo / name)))
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        head = self.commit(f"m-{number}")
        name = f"{self.basin}.{number}"
        self.lab.git("update-ref", f"refs/orchconverge/keep/{name}", head)
        self.lab.git("branch", "-q", "-D", f"m-{number}")
        self.tell(e.BranchEnded(basin=self.basin, branch=name, reason="exited", seconds=1.0, head=head, exit=0))
        return head

    def candidate(self, number: int, files: Mapping[str, str | bytes], met: Iterable[str]) -> Sha:
        head = self.ended(number, files)
        tree = self.lab.git("rev-parse", f"{head}^{{tree}}")
        seen = self.evidence(met, tree)
        name = f"{self.basin}.{number}"
        self.tell(e.BranchCandidate(basin=self.basin, branch=name, head=head, summary="", evidence=seen, commits=1))
        return head


def line(number: int, text: str) -> str:
    lines = BASE.splitlines(keepends=True)
    lines[number - 1] = f"{text}\n"
    return "".join(lines)


@pytest.fixture
def wave(lab: Lab) -> Wave:
    """Three candidates, the first two in conflict, and one that failed after it had committed."""
    made = Wave(lab, minds=4)
    made.candidate(1, {"code.py": line(3, "one"), "new\n\udcff.txt": "1\n"}, ["enrol", "style"])
    made.candidate(2, {"code.py": line(3, "two"), "image": b"\0"}, ["enrol", "verify"])
    made.candidate(3, {"code.py": line(12, "three\x1b[2J")}, ["enrol", "style"])
    made.ended(4, {"code.py": line(3, "four")})
    made.tell(e.BranchFailed(basin="mfa", branch="mfa.4", reason="changed what it may not"))
    return made


def asked(lab: Lab, *args: str) -> dict[str, Any]:
    """What a command says as JSON, having changed nothing."""
    before = lab.lines(), sorted((lab.repo / ".git").rglob("*"))
    found: dict[str, Any] = json.loads(lab.run(*args, "--json", code=0).stdout)
    assert (lab.lines(), sorted((lab.repo / ".git").rglob("*"))) == before
    return found


def test_overlap_names_conflicts_lines_and_files_of_one_alone(lab: Lab, wave: Wave) -> None:
    found = asked(lab, "overlap")
    assert found["basin"] == "mfa"
    odd = "new\n\\xff.txt"
    assert [(c["branch"], c["files"], c["only"]) for c in found["candidates"]] == [
        ("mfa.1", 2, [odd]),
        ("mfa.2", 2, ["image"]),
        ("mfa.3", 1, []),
    ]
    assert [(p["one"], p["other"], p["merges"], p["conflicts"]) for p in found["pairs"]] == [
        ("mfa.1", "mfa.2", False, ["code.py"]),
        ("mfa.1", "mfa.3", True, []),
        ("mfa.2", "mfa.3", True, []),
    ]
    claimed = {"path": "code.py", "claimed": "lines", "lines": [{"after": 2, "last": 3}]}
    assert found["pairs"][0]["shared"] == [claimed]
    text = lab.run("overlap", "mfa", code=0).stdout
    assert "mfa.1 mfa.2  conflict in code.py\n  same lines  code.py: 3\n" in text
    assert "Clean, with no common line: 2 pairs." in text
    assert "mfa.1  1 of 2 files  new \\xff.txt\n" in text


def test_overlap_of_all_takes_in_what_was_turned_down(lab: Lab, wave: Wave) -> None:
    wave.tell(e.BranchPruned(basin="mfa", branch="mfa.2", reason="covered", decidedBy="person"))
    assert [c["branch"] for c in asked(lab, "overlap")["candidates"]] == ["mfa.1", "mfa.3"]
    found = asked(lab, "overlap", "--all")
    assert [c["branch"] for c in found["candidates"]] == ["mfa.1", "mfa.2", "mfa.3", "mfa.4"]
    conflicts = [(p["one"], p["other"]) for p in found["pairs"] if p["merges"] is False]
    assert conflicts == [("mfa.1", "mfa.2"), ("mfa.1", "mfa.4"), ("mfa.2", "mfa.4")]


def test_overlap_leaves_out_a_branch_whose_commits_are_gone_and_says_so(lab: Lab, wave: Wave) -> None:
    lab.git("update-ref", "-d", "refs/orchconverge/keep/mfa.3")
    lab.git("reflog", "expire", "--expire=now", "--all")
    lab.git("gc", "--quiet", "--prune=now")
    said = lab.run("overlap", "--json", code=0)
    assert "mfa.3" in said.stderr
    assert [c["branch"] for c in json.loads(said.stdout)["candidates"]] == ["mfa.1", "mfa.2"]
    gone = lab.run("diff", "mfa.3", code=2).stderr
    assert "its commit is not in this repository" in gone


def test_one_candidate_has_nothing_to_overlap_with(lab: Lab) -> None:
    wave = Wave(lab, minds=1)
    assert lab.run("overlap", code=0).stdout == "OVERLAP  mfa  0 candidates, 0 pairs\n"
    wave.candidate(1, {"code.py": line(1, "x")}, [])
    assert lab.run("overlap", code=0).stdout.splitlines()[0] == "OVERLAP  mfa  1 candidate, 0 pairs"


def test_diff_says_first_which_criteria_tell_two_apart(lab: Lab, wave: Wave) -> None:
    said = lab.run("diff", "mfa.1", "mfa.2", code=0).stdout
    assert said.startswith(
        "mfa.1 alone meets: style\nmfa.2 alone meets: verify\nBoth meet: enrol\nNeither meets: docs\n\nmfa.2 since "
    )
    assert " M code.py" in said
    assert "\n A image" in said
    assert " binary\n" in said
    assert said.index("3 files, +1 -2") < said.index("-one\n") < said.index("+two\n")
    found = asked(lab, "diff", "mfa.1", "mfa.2", "--stat")
    assert (found["only_old"], found["only_new"], found["both"]) == (["style"], ["verify"], ["enrol"])
    assert [file["path"] for file in found["files"]] == ["code.py", "image", "new\n\\xff.txt"]
    assert found["patch"] is None
    assert "+two" not in lab.run("diff", "mfa.1", "mfa.2", "--stat", code=0).stdout


def test_diff_against_the_tip_shows_what_a_candidate_brings_and_no_escape_sequence(lab: Lab, wave: Wave) -> None:
    alone, named = lab.run("diff", "mfa.3", code=0), lab.run("diff", "mfa.3", "--tip", code=0)
    assert alone.stdout == named.stdout
    assert alone.stdout.startswith("main alone meets: nothing\nmfa.3 alone meets: enrol\nBoth meet: style\n")
    assert "\x1b" not in alone.stdout
    assert "-line 12\n+three\n" in alone.stdout
    found = asked(lab, "diff", "mfa.3")
    assert (found["old"], found["new"], found["since"]) == ("main", "mfa.3", wave.base)
    assert found["patch"].startswith("diff --git a/code.py b/code.py\n")


def test_diff_against_a_tip_that_went_on_does_not_take_back_what_it_got(lab: Lab, wave: Wave) -> None:
    (lab.repo / "later.txt").write_text("x\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "later")
    said = lab.run("diff", "mfa.3", code=0)
    assert "main moved to" in said.stderr
    wave.check(["style", "docs"])
    said = lab.run("diff", "mfa.3", code=0)
    assert said.stderr == ""
    assert said.stdout.startswith("main alone meets: docs\nmfa.3 alone meets: enrol\n")
    assert "later.txt" not in said.stdout


def test_diff_of_what_is_on_the_target_already_shows_what_it_brought_there(lab: Lab, wave: Wave) -> None:
    lab.git("merge", "-q", "--ff-only", "refs/orchconverge/keep/mfa.3")
    wave.check(["enrol", "style"])
    found = asked(lab, "diff", "mfa.3")
    assert (found["since"], found["only_old"], found["only_new"]) == (wave.base, [], [])
    assert [file["path"] for file in found["files"]] == ["code.py"]


def test_diff_knows_pruned_and_failed_branches(lab: Lab, wave: Wave) -> None:
    wave.tell(e.BranchPruned(basin="mfa", branch="mfa.2", reason="covered", decidedBy="person"))
    found = asked(lab, "diff", "mfa.2", "mfa.4")
    assert found["unknown"] == sorted(CRITERIA)
    assert "+four\n" in found["patch"]


def test_matrix_shows_who_adds_what(lab: Lab, wave: Wave) -> None:
    found = asked(lab, "matrix")
    assert (found["basin"], found["target"], found["tip"], found["unmet"]) == ("mfa", "main", wave.base, ["docs"])
    assert [(row["criterion"], row["failures"]) for row in found["rows"]] == [
        ("docs", 3),
        ("verify", 2),
        ("enrol", 0),
        ("style", 1),
    ]
    assert [(c["branch"], c["gains"], c["losses"], c["marginal"], c["dominated_by"]) for c in found["columns"]] == [
        ("mfa.2", ["enrol", "verify"], ["style"], ["enrol", "verify"], None),
        ("mfa.1", ["enrol"], [], [], None),
        ("mfa.3", ["enrol"], [], [], "mfa.1"),
    ]
    assert found["columns"][0]["cells"] == ["unmet", "only", "gained", "lost"]
    text = lab.run("matrix", code=0).stdout
    assert "verify                □      ◈      □      □\n" in text
    assert "style                 ■      !      ■      ■\n" in text
    for plain in (lab.run("matrix", "--ascii", code=0), lab.run("matrix", code=0, env={"PYTHONIOENCODING": "ascii"})):
        assert "verify                -      1      -      -\n" in plain.stdout
        assert plain.stdout.isascii()


def test_they_may_be_run_inside_a_mind(lab: Lab, wave: Wave) -> None:
    inside = {"ORCHCONVERGE_BRIEF": "brief.md"}
    for command in (["diff", "mfa.1"], ["overlap"], ["matrix"]):
        lab.run(*command, code=0, env=inside)
    assert lab.run("run", "goal", code=2, env=inside).stderr.startswith("orchconverge: this is a mind")


def test_names_that_are_not_there_get_one_line_with_those_that_are(lab: Lab, wave: Wave) -> None:
    for command in (["diff", "mfa.9"], ["diff", "mfa.1", "nothing\x1b[2J"]):
        first, hint = lab.run(*command, code=2).stderr.splitlines()
        assert first.startswith("orchconverge: no branch is called ")
        assert "\x1b" not in first
        assert hint == "  there is: mfa.1, mfa.2, mfa.3, mfa.4"
    for command in (["overlap", "nothing"], ["matrix", "nothing"]):
        first, hint = lab.run(*command, code=2).stderr.splitlines()
        assert (first, hint) == ("orchconverge: no destination is called nothing", "  there is: mfa")
    assert "both were given" in lab.run("diff", "mfa.1", "mfa.2", "--tip", code=2).stderr


def test_where_there_is_no_destination_they_say_so(lab: Lab) -> None:
    for command in ("overlap", "matrix"):
        assert "there is nothing to show" in lab.run(command, code=2).stderr
    assert lab.run("diff", "mfa.1", code=2).stderr.splitlines()[1] == "  there is: none"


def test_a_branch_that_has_no_commit_yet_cannot_be_compared(lab: Lab) -> None:
    Wave(lab, minds=1)
    assert "it is searching" in lab.run("diff", "mfa.1", code=2).stderr
