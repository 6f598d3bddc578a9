"""The lock as a person meets it: the card, its keys on a real terminal, the flags for scripts, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from orchconverge.adapters.locks import FileLocks
from orchconverge.core import events as e
from tests.e2e.lab import Lab, mind
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.tmux

TEXT = "".join(f"line {number}\n" for number in range(1, 41))
CI = {"write": {"path": ".github/workflows/ci.yml", "text": "on: push\n"}}


def wrote(path: str, text: str) -> Iterable[dict[str, Any]]:
    """A commit of one file, for the criterion that asks for it."""
    name = path.partition(".")[0]
    return ({"write": {"path": path, "text": text}}, {"commit": f"{name}\n\nCriterion: {name}"})


def three(*, flagged: bool = False) -> list[dict[str, Any]]:
    """demo.1 meets a and b, demo.2 a and c, demo.3 d; all of them write a.txt, each in its own words."""
    return [
        mind(
            *wrote("a.txt", "a1\n"),
            *wrote("b.txt", "b1\n"),
            *([CI] if flagged else []),
            {"commit": "ci"},
            branch="demo.1",
        ),
        mind(*wrote("a.txt", "a2\n"), *wrote("c.txt", "c2\n"), branch="demo.2"),
        mind({"write": {"path": "a.txt", "text": "a3\n"}}, *wrote("d.txt", "d3\n"), branch="demo.3"),
    ]


def opened(lab: Lab, minds: list[dict[str, Any]], *, criteria: Iterable[str] = "abcd", switch: bool = True) -> None:
    """Declare `demo` for the branch topic, which is checked out, and send a wave: its candidates wait at the lock."""
    if switch:
        lab.git("switch", "-q", "-c", "topic")
    target = 'id = "demo"\ntitle = "demo"\nmacrostate = "all four are there"\ntermination = "all criteria hold, or 5 attempts"\n'
    target += "".join(f'[[criteria]]\nname = "{name}"\ncommand = "test -f {name}.txt"\n' for name in criteria)
    (lab.root / "demo.toml").write_text(target)
    lab.run("declare", "--target", lab.root / "demo.toml", code=0)
    words = ("--minds", str(len(minds)), "--engine", "scripted", "--script", str(lab.script(*minds)))
    one_by_one = {"ORCHCONVERGE_MAX_MINDS": "1"}  # so that they come to the lock in the order of their numbers
    lab.run("open", "demo", *words, "--foreground", code=5, env=one_by_one)
    assert lab.state().basins["demo"].queue == tuple(f"demo.{number}" for number in range(1, len(minds) + 1))


def tree(lab: Lab) -> dict[str, bytes]:
    """The person's working tree to the byte, with where HEAD stands and what the index holds."""
    found = {
        str(path.relative_to(lab.repo)): path.read_bytes()
        for path in sorted(lab.repo.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(lab.repo).parts[:1]
    }
    head = (lab.repo / ".git" / "HEAD").read_bytes()
    return {**found, "HEAD": head, "index": lab.git("ls-files", "--stage").encode()}


def tip(lab: Lab, branch: str = "topic") -> str:
    return lab.git("rev-parse", branch)


def on(lab: Lab, branch: str = "topic") -> list[str]:
    """What a branch has over main: the subjects, oldest first."""
    return lab.git("log", "--reverse", "--format=%s", f"main..{branch}").splitlines()


# --- looking ---------------------------------------------------------------------------------------------------------


def test_where_nothing_waits_it_says_so(lab: Lab) -> None:
    assert lab.run("lock", code=0).stdout == "The lock is empty. The next candidate will wait here for you.\n"
    assert json.loads(lab.run("lock", "--json", code=0).stdout) == {"basin": None, "waiting": [], "card": None}
    unknown = lab.run("lock", "demo", code=2).stderr.splitlines()
    assert unknown == ["orchconverge: no destination is called demo", "  there is: none"]
    lab.git("switch", "-q", "-c", "topic")
    lab.run("declare", "a is there", "--criterion", "a=test -f a", code=0)
    assert "empty." in lab.run("lock", "a-is-there", "--accept", code=0).stdout


def test_the_card_is_shown_and_nothing_is_written(lab: Lab) -> None:
    opened(lab, three())
    before = lab.lines(), lab.git("for-each-ref"), tree(lab)
    said = lab.run("lock", "--once", code=0, env={"COLUMNS": "120"}).stdout
    assert said.startswith("[LOCK]  demo.1  ")
    assert "1 of 3 waiting" in said.splitlines()[0]
    assert " Adds 2 criteria, loses none: 0/4 to 2/4. No other candidate meets more.\n" in said
    assert " p1  graft demo.1, take c from demo.2, d from demo.3: 0/4 to 4/4, gate passed on " in said
    assert "demo.2  " in said
    assert "meets c, this does not; conflict in a.txt\n" in said
    assert lab.run("lock", "demo", code=5, env={"COLUMNS": "120"}).stdout == said
    assert "\x1b" not in said
    for how in ({"env": {"PYTHONIOENCODING": "ascii"}}, {"env": {}, "ascii": True}):
        words = ("--ascii",) if how.pop("ascii", False) else ()
        plain = lab.run("lock", "--once", *words, code=0, **how).stdout
        assert plain.isascii()
        assert "  - 1  b  exit 0" in plain
    found = json.loads(lab.run("lock", "--json", code=0).stdout)
    assert (found["basin"], found["waiting"]) == ("demo", ["demo.1", "demo.2", "demo.3"])
    shown = found["card"]
    assert (shown["branch"], shown["before"], shown["after"], shown["whole"]) == ("demo.1", 0, 2, 4)
    assert [part["branch"] for part in shown["proposal"]["parts"]] == ["demo.1", "demo.2", "demo.3"]
    helped = lab.run("lock", "--help", code=0).stdout
    assert [key for key in shown if key not in helped] == []
    assert (lab.lines(), lab.git("for-each-ref"), tree(lab)) == before


@pytest.mark.slow
def test_several_targets_with_candidates_are_listed(lab: Lab) -> None:
    opened(lab, [mind(*wrote("a.txt", "a\n"))], criteria="a")
    lab.run("declare", "z is there", "--criterion", "z=test -f z.txt", code=0)
    words = ("--engine", "scripted", "--script", str(lab.script(mind(*wrote("z.txt", "z\n")), name="z.json")))
    lab.run("open", "z-is-there", *words, "--foreground", code=5)
    said = lab.run("lock", code=2).stderr.splitlines()
    assert said[0].endswith("several wait at the lock: demo (1 candidate), z-is-there (1 candidate)")
    assert said[1] == "  orchconverge lock demo"
    assert lab.run("lock", "z-is-there", "--once", code=0).stdout.startswith("[LOCK]  z-is-there.1  ")


# --- deciding, from a script -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_script_takes_the_proposal_without_a_part_and_then_the_rest(lab: Lab) -> None:
    opened(lab, three())
    for words, why in (
        (["--accept", "--without", "9"], "there is no part 9"),
        (["--accept", "--without", "1", "--without", "2", "--without", "3"], "every part is turned off"),
        (["--without", "1"], "belong to --accept"),
        (["--accept", "--once"], "--accept decides"),
    ):
        refused = lab.run("lock", *words, code=2).stderr.splitlines()
        assert why in refused[0]
        assert "orchconverge lock" in refused[1]
    assert on(lab) == []
    said = lab.run("lock", "demo", "--accept", "--without", "2", code=0).stdout.splitlines()
    assert said[0].startswith("Grafted demo.1 onto topic as ")
    assert said[0].endswith(", gains a, b. Its criteria held on exactly that tree.")
    assert said[1].startswith("Grafted d of demo.3 onto topic as ")
    assert said[2:] == [
        "Covered now: demo.3. Turn them down: orchconverge prune demo --others",
        "Next at the lock: demo.2: orchconverge lock demo",
    ]
    assert on(lab) == ["demo (demo.1)", "demo (d of demo.3)"]
    assert (lab.repo / "d.txt").read_text() == "d3\n"
    stale = lab.run("lock", "demo", "--once", code=0).stdout
    assert stale.startswith("[LOCK]  demo.2  ")
    assert "No proposal for this tip yet" in stale
    numbers = lab.run("lock", "demo", "--accept", "--without", "1", code=2).stderr
    assert "these numbers are of a proposal that is out of date" in numbers
    assert "p1  take c from demo.2: 3/4 to 4/4" in lab.run("lock", "demo", "--once", code=0).stdout
    said = lab.run("lock", "demo", "--accept", code=0).stdout
    assert "All required criteria hold. The final steps: orchconverge resume demo\n" in said
    assert on(lab)[2:] == ["demo (c of demo.2)"]
    kinds = lab.kinds()
    assert (kinds.count("branch.grafted"), kinds.count("residue.grafted")) == (1, 2)
    assert all(fact.decidedBy.startswith("person(") for fact in lab.facts(e.ResidueGrafted))
    assert "nothing that waits gains a criterion" in lab.run("lock", "demo", "--once", code=0).stdout


@pytest.mark.slow
def test_a_proposal_of_which_a_branch_was_turned_down_is_not_taken(lab: Lab) -> None:
    opened(lab, three())
    lab.run("prune", "demo.1", "--reason", "another way", code=0)
    said = lab.run("lock", "demo", "--accept", code=0).stdout
    assert "demo.1" not in said
    assert said.startswith("Grafted demo.2 onto topic")
    assert lab.state().branches["demo.1"].phase.value == "pruned"
    assert not (lab.repo / "b.txt").exists()


def test_what_is_flagged_wants_a_word(lab: Lab) -> None:
    opened(lab, three(flagged=True))
    shown = lab.run("lock", "demo", "--once", code=0).stdout
    assert "Look at first: CI (1 flag)" in shown
    assert " ! CI                 .github/workflows/ci.yml  +1 -0" in shown
    assert "p1  graft demo.2, take d from demo.3" in shown
    refused = lab.run("graft", "demo.1", code=2).stderr
    assert "demo.1 is flagged: ci: .github/workflows/ci.yml" in refused
    assert "orchconverge graft demo.1 --yes" in refused
    part = lab.run("graft", "demo.1", "--only", ".github", "--reason", "parts", code=2).stderr
    assert "that part of demo.1 is flagged: ci: .github/workflows/ci.yml" in part
    assert "orchconverge graft demo.1 --only PATH --reason TEXT --yes" in part
    with Terminal(lab, "lock", "demo") as person:
        person.until("> ")
        person.type("g").until("Type graft to go on")
        assert "demo.1 was not grafted" in person.type("yes").until("> ")
        assert on(lab) == []
        person.type("g").until("Type graft to go on")
        person.type("graft").until("Grafted demo.1 onto topic")
        person.until("> ")
        person.type("q").end(0)
    assert on(lab) == ["demo (demo.1)"]


# --- deciding, on a terminal -----------------------------------------------------------------------------------------


def test_a_person_turns_a_part_off_accepts_prunes_what_is_covered_and_goes_on(lab: Lab) -> None:
    opened(lab, three())
    with Terminal(lab, "lock") as person:
        card = person.until("q leave")
        assert card.startswith(" LOCK   demo.1  ")
        assert "a accept   1-3 turn a part   g graft alone   p prune   s skip" in card
        assert b"\x1b[30;43m LOCK \x1b[0m" in person.raw
        person.until("> ")
        person.type("2").until("graft demo.1, take d from demo.3: 1 turned off, what is left is gated anew")
        assert "2 c of demo.2 +1 off" in person.until("> ")
        person.type("9").until("no part has the number 9: 1 to 3 are there")
        person.until("> ")
        person.type("a").until("Grafted demo.1 onto topic as ")
        person.until("Covered now: demo.3. Prune? [y/N]")
        person.type("y").until("demo.3 is pruned: covered: a, d hold on topic at ")
        card = person.until("> ")
        assert " LOCK   demo.2  " in card
        assert "1 of 1 waiting" in card
        assert "No proposal for this tip yet: a makes it." in card
        person.type("a").until("p1  take c from demo.2: 3/4 to 4/4, gate passed on ")
        person.until("> ")
        person.type("a").until("Grafted c of demo.2 onto topic as ")
        person.until("Covered now: demo.2. Prune? [y/N]")
        rest = person.type("y").end(0)
    assert "The lock is empty. The next candidate will wait here for you.\n" in rest
    assert rest.endswith("All required criteria hold. The final steps: orchconverge resume demo\n")
    assert on(lab) == ["demo (demo.1)", "demo (d of demo.3)", "demo (c of demo.2)"]
    assert {name: branch.phase.value for name, branch in lab.state().branches.items()} == {
        "demo.1": "grafted",
        "demo.2": "pruned",
        "demo.3": "pruned",
    }


@pytest.mark.slow
def test_a_person_looks_skips_and_prunes_with_a_reason(lab: Lab) -> None:
    opened(lab, three())
    before = lab.lines()
    with Terminal(lab, "lock", env={"NO_COLOR": "1"}) as person:
        assert person.until("> ").startswith("[LOCK]  demo.1  ")
        assert "+a1\n" in person.type("d").until("> ")
        shown = person.type("v").until("> ")
        assert "c  test -f c.txt\n  exit 1, 0s, on tree " in shown
        assert f"{lab.state_dir}/evidence/" in shown
        assert "a accept, 1-9 turn a part" in person.type("x").until("> ")
        assert "[LOCK]  demo.2  " in person.type("s").until("> ")
        assert lab.lines() == before
        person.type("p").until("demo.2 meets 2/4, and alone c.\n")
        assert "a blank is no answer" in person.type(" ").until("> ")
        assert lab.lines() == before
        person.type("p").until("Why? (kept for ever): ")
        person.type("c is built on sand").until("What is worth keeping? (empty: nothing): ")
        person.type("a.txt wants one word").until("demo.2 is pruned: c is built on sand")
        assert "[LOCK]  demo.3  " in person.until("> ")
        assert person.type("s").end(0).endswith("Skipped, and still at the lock: demo.1, demo.3\n")
        assert b"\x1b[" not in person.raw
    [pruned] = lab.facts(e.BranchPruned)
    assert (pruned.branch, pruned.reason, [one.text for one in pruned.residue]) == (
        "demo.2",
        "c is built on sand",
        ["a.txt wants one word"],
    )
    assert lab.run("lock", "--once", code=0).stdout.startswith("[LOCK]  demo.1  ")


def test_control_c_leaves_and_changes_nothing(lab: Lab) -> None:
    opened(lab, three(flagged=True)[:1], criteria="ab")
    before = lab.lines(), tip(lab), tree(lab)
    for keys in ([], ["g"], ["p"]):
        with Terminal(lab, "lock") as person:
            person.until("> ")
            for key in keys:
                person.type(key).until(": ")
            person.interrupt(130)
    with Terminal(lab, "graft", "demo.1") as person:
        person.until("Type graft to go on: ")
        person.interrupt(130)
    assert (lab.lines(), tip(lab), tree(lab)) == before


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_second_of_two_people_is_told(lab: Lab) -> None:
    opened(lab, three())
    before = lab.lines(), tip(lab), tree(lab)
    lease = FileLocks(lab.state_dir).take("graft/topic")
    assert lease is not None
    for words in (["lock", "--accept"], ["graft", "demo.1"]):
        said = lab.run(*words, code=2).stderr.splitlines()
        assert said == ["orchconverge: somebody else grafts into topic right now", "  orchconverge status; then again"]
    with Terminal(lab, "lock") as person:
        person.until("> ")
        assert " LOCK   demo.1  " in person.type("a").until("somebody else grafts into topic right now")
        person.until("> ")
        assert (lab.lines(), tip(lab), tree(lab)) == before
        lab.run("lock", "--once", code=0)
        lease.release()
        person.type("a").until("Grafted demo.1 onto topic")
        person.until("Prune? [y/N]")
        person.type("n").until("> ")
        person.type("q").end(0)
    assert len(on(lab)) == 3


@pytest.mark.slow
def test_what_somebody_decided_meanwhile_is_not_decided_twice(lab: Lab) -> None:
    opened(lab, three())
    with Terminal(lab, "lock") as person:
        person.until("> ")
        lab.run("graft", "demo.1", code=0)
        shown = person.type("g").until("> ")
        assert " LOCK   demo.2  " in shown
    assert on(lab) == ["demo (demo.1)"]
    assert len(lab.facts(e.BranchGrafted)) == 1


def rebasing(lab: Lab) -> None:
    """A rebase that stands at a conflict, with HEAD detached."""
    (lab.repo / "README.md").write_text("ours\n")
    lab.git("commit", "-q", "-am", "ours")
    with pytest.raises(AssertionError, match="could not apply"):
        lab.git("rebase", "-q", "other")


@pytest.mark.slow
def test_a_target_in_which_somebody_works_is_not_moved(lab: Lab) -> None:
    opened(lab, three())
    lab.git("switch", "-q", "-c", "other", "main")
    (lab.repo / "README.md").write_text("theirs\n")
    lab.git("commit", "-q", "-am", "theirs")
    lab.git("switch", "-q", "topic")
    for busy, said, done in (
        (lambda: (lab.repo / "README.md").write_text("mine\n"), "commit them first", ("restore", "README.md")),
        (
            lambda: lab.git("merge", "-q", "--no-ff", "--no-commit", "other"),
            "a merge is in progress",
            ("merge", "--abort"),
        ),
        (lambda: rebasing(lab), "a rebase is in progress", ("rebase", "--abort")),
    ):
        busy()
        before = tip(lab), tree(lab), lab.git("status", "--porcelain=v2", "--branch")
        for words in (["lock", "demo", "--accept"], ["graft", "demo.1"]):
            refused = lab.run(*words, code=2).stderr
            assert said in refused
            assert (tip(lab), tree(lab), lab.git("status", "--porcelain=v2", "--branch")) == before
        lab.git(*done)
    assert lab.facts(e.BranchGrafted) == []


@pytest.mark.slow
def test_a_person_on_another_branch_keeps_their_tree_to_the_byte(lab: Lab) -> None:
    opened(lab, three())
    lab.git("switch", "-q", "main")
    (lab.repo / "README.md").write_text("mine\n")
    (lab.repo / "a.txt").write_text("not committed\n")
    before = tree(lab)
    lab.run("lock", "demo", "--accept", code=0)
    assert tree(lab) == before
    assert on(lab) == ["demo (demo.1)", "demo (c of demo.2)", "demo (d of demo.3)"]


@pytest.mark.slow
def test_a_target_that_moved_is_said_and_everything_is_checked_on_where_it_stands(lab: Lab) -> None:
    opened(lab, three())
    was = tip(lab)
    (lab.repo / "b.txt").write_text("by hand\n")
    lab.git("add", "b.txt")
    lab.git("commit", "-q", "-m", "b by hand")
    shown = lab.run("lock", "demo", "--once", code=0).stdout
    assert f"topic moved ({was[:7]} to {tip(lab)[:7]}). demo.1 will be checked again on it." in shown
    assert "No proposal for this tip yet" in shown
    refused = lab.run("graft", "demo.1", code=2).stderr
    assert "topic is not moved: the gate refused demo.1, conflict in b.txt" in refused
    lab.run("lock", "demo", "--accept", code=0)
    assert on(lab)[0] == "b by hand"
    assert all((lab.repo / f"{name}.txt").exists() for name in "abcd")
    assert (lab.repo / "b.txt").read_text() == "by hand\n"
    assert lab.facts(e.BasinChecked)[-1].head == tip(lab)


def test_it_is_refused_inside_a_mind(lab: Lab) -> None:
    inside = lab.run("lock", "--accept", code=2, env={"ORCHCONVERGE_BRIEF": "brief.md"})
    assert "this is a mind" in inside.stderr


# --- parts by hand ---------------------------------------------------------------------------------------------------


def changed(lines: Mapping[int, str]) -> str:
    return "".join(lines.get(number, line) for number, line in enumerate(TEXT.splitlines(keepends=True), 1))


def test_hunks_are_chosen_on_a_terminal_and_only_they_land(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    (lab.repo / "code.txt").write_text(TEXT)
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "code")
    edited = changed({2: "two\n", 20: "twenty\n", 39: "thirty-nine\n"})
    acts = (
        {"write": {"path": "code.txt", "text": edited}},
        {"write": {"path": "a.txt", "text": "a\n"}},
        {"commit": "work"},
    )
    opened(lab, [mind(*acts)], criteria="ab", switch=False)
    words = ("graft", "demo.1", "--hunk", "--only", "code.txt", "--reason", "the middle is right")
    nobody = lab.run(*words, code=2).stderr
    assert "hunks are chosen on a terminal, and there is none" in nobody
    assert "--only PATH" in nobody
    with Terminal(lab, *words) as person:
        assert "code.txt  (file 1 of 1)" in person.until("(1/3) Take this hunk [y,n,a,d,q,?]: ")
        assert "-line 20\n+twenty\n" in person.type("n").until("(2/3) Take this hunk [y,n,a,d,q,?]: ")
        person.type("y").until("(3/3) Take this hunk [y,n,a,d,q,?]: ")
        person.type("q").until("Grafted code.txt of demo.1 onto topic as ")
        person.end(0)
    assert (lab.repo / "code.txt").read_text() == changed({20: "twenty\n"})
    assert not (lab.repo / "a.txt").exists()
    [part] = lab.facts(e.ResidueGrafted)
    assert (part.branch, part.paths, part.reason) == ("demo.1", ("code.txt",), "the middle is right")
    assert part.mergeCommit == tip(lab)
    before = lab.lines(), tip(lab)
    with Terminal(lab, *words) as person:
        person.until("[y,n,a,d,q,?]: ")
        assert "nothing was chosen" in person.type("q").end(2)
    assert (lab.lines(), tip(lab)) == before
    assert lab.worktrees() == []


@pytest.mark.slow
def test_files_of_a_pruned_branch_are_taken_with_a_reason(lab: Lab) -> None:
    opened(lab, three())
    lab.run("prune", "demo.2", "--reason", "c is enough of it", code=0)
    unsaid = lab.run("graft", "demo.2", "--only", "c.txt", code=2).stderr.splitlines()
    assert unsaid[1] == "  orchconverge graft demo.2 --only PATH --reason TEXT"
    wrong = lab.run("graft", "demo.2", "--only", "nowhere", "--reason", "r", code=2).stderr
    assert "demo.2 does not change nowhere" in wrong
    assert "it changes: a.txt, c.txt" in wrong
    with Terminal(lab, "graft", "demo.2", "--only", "c.txt") as person:
        person.until("Why is this part taken?: ")
        person.type("it stands by itself").until("Grafted c.txt of demo.2 onto topic")
        person.end(0)
    assert on(lab) == ["demo (a part of demo.2)"]
    assert not (lab.repo / "a.txt").exists()
    [part] = lab.facts(e.ResidueGrafted)
    assert (part.branch, part.paths, part.reason) == ("demo.2", ("c.txt",), "it stands by itself")
    assert lab.state().branches["demo.2"].phase.value == "pruned"
    assert "1/4 to" in lab.run("lock", "--once", code=0).stdout
