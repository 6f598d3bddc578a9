"""Admission by example: what is told, the budgets one by one, what a command line does, what a stage may declare."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import admission_transcripts as transcripts
from orchconverge.adapters.stages import read_stage, stage_of
from orchconverge.core.admission import Admission, Call, Checked, Ruling, Turn, after_turn, before_call, begun
from orchconverge.core.admission_record import record, resumed
from orchconverge.core.fingerprints import ABSENT, Blob, blob, canonical, nature, plain, relevant
from orchconverge.core.frontiers import Goal, Looked, Observed, Ran, Stage, Standing, Thresholds, Wrote, facts_of
from orchconverge.core.seen import Act
from orchconverge.core.values import Verdict
from orchconverge.errors import Refused

ROOT = Path(__file__).resolve().parents[2]
CHECK = "python3 -m pytest -q"
PARSER = Goal(words="Add a parser for dates", checks={"tests": CHECK}, expects=True, root="/srv/tree")
STAGE = Stage(name="plan", inputs=("docs/spec.md",), output="docs/plan.md", aliases={"spec": "docs/spec.md"})
PLAN = Goal(words="Plan it", stage=STAGE, root="/srv/tree")
A, B, C = (blob(text.encode()) for text in "abc")


def reads(count: int, *, first: int = 0) -> list[Observed]:
    return [Looked(target=f"src/{number}.py", ok=True) for number in range(first, first + count)]


def turn(*facts: Observed, **given: object) -> Turn:
    return Turn(facts=facts, **given)  # type: ignore[arg-type]


def told(goal: Goal, *turns: Turn, standing: Standing | None = None) -> Admission:
    found = None
    for one in turns:
        found = after_turn(standing or Standing(), goal, [one])
        standing = found.standing
    assert found is not None
    return found


def asked(goal: Goal, *targets: str, kind: str = "read", standing: Standing | None = None) -> list[Ruling]:
    standing, out = standing or Standing(), []
    for target in targets:
        out.append(before_call(standing, goal, Call(kind=kind, target=target)))  # type: ignore[arg-type]
        standing = out[-1].admission.standing
    return out


# Between turns ----------------------------------------------------------------------------------------------------------


def test_reading_within_the_budget_is_pending() -> None:
    found = told(PARSER, turn(*reads(7)))
    assert (found.frontier, found.cause) == ("authoring", "expected_artifact")
    assert (found.state, found.action) == ("pending", "allow_next_turn")


def test_the_eighth_target_uses_the_budget_up_and_what_closes_it_is_said() -> None:
    found = told(PARSER, turn(*reads(8)))
    assert found.action == "constrain_next_turn"
    assert found.closes == "What closes this: a change of a file that the goal is about, or a verdict in your report."


def test_three_rereads_fall_back_to_recovery() -> None:
    found = told(PARSER, turn(*reads(2), *reads(2), *reads(1)))
    assert (found.frontier, found.cause, found.action) == ("verifier_recovery", "rereads", "constrain_next_turn")


def test_three_constrained_turns_that_do_not_close_are_the_end() -> None:
    actions = []
    standing = Standing()
    for _ in range(4):
        found = after_turn(standing, PARSER, [turn(*reads(8))])
        standing = found.standing
        actions.append(found.action)
    assert actions == ["constrain_next_turn"] * 3 + ["deny_ordinary_continuation"]
    assert found.state == "unsatisfied"
    shown = record(found, PARSER)
    assert shown["work_convergence_error"] == "work_convergence_unsatisfied"
    assert shown["work_convergence_source"] == "work_convergence"


def test_a_turn_of_words_alone_is_constrained() -> None:
    assert told(PARSER, turn()).action == "constrain_next_turn"


def test_a_constrained_turn_that_writes_gets_everything_back() -> None:
    found = told(
        PARSER,
        turn(*reads(8)),
        turn(*reads(8)),
        turn(
            Wrote(path="src/parser.py", ok=True, before=A, after=B),
            checks=(Checked(name="tests", met="no", gained=True),),
        ),
        turn(*reads(3)),
    )
    assert (found.state, found.action, found.standing.refusals) == ("pending", "allow_next_turn", 0)


def test_work_whose_check_comes_back_red_without_a_gain_is_recovery_from_then_on() -> None:
    wrote = Wrote(path="src/parser.py", ok=True, before=A, after=B)
    found = told(PARSER, turn(wrote, checks=(Checked(name="tests", met="no"),)))
    assert (found.frontier, found.state, found.action) == ("verifier_recovery", "pending", "allow_next_turn")
    assert found.closes == "What closes this: a change that makes tests pass, or a verdict in your report."


def test_what_was_open_from_the_start_is_no_failed_check() -> None:
    found = told(PARSER, turn(*reads(2), Ran(command=CHECK, ok=False), checks=(Checked(name="tests", met="no"),)))
    assert (found.frontier, found.standing.failed) == ("authoring", ())


def test_a_check_that_turns_green_by_itself_is_neither_credited_nor_held_against_anyone() -> None:
    green = (Checked(name="tests", met="yes", gained=True),)
    standing = Standing(failed=("tests",), constrained=True, refusals=2)
    found = told(PARSER, turn(*reads(1), checks=green), standing=standing)
    assert (found.state, found.action) == ("pending", "allow_next_turn")


def test_the_mind_that_came_farthest_speaks_for_the_wave() -> None:
    idle, worked = turn(*reads(30)), turn(Wrote(path="src/parser.py", ok=True, before=ABSENT, after=A))
    assert after_turn(Standing(), PARSER, [idle, worked, idle]).state == "satisfied"
    assert after_turn(Standing(), PARSER, [idle, idle]).action == "constrain_next_turn"


def test_thresholds_are_settings() -> None:
    tight = Thresholds(targets=1, rereads=1, refusals=1)
    assert after_turn(Standing(), PARSER, [turn(*reads(1))], limits=tight).action == "constrain_next_turn"
    found = after_turn(Standing(constrained=True), PARSER, [turn()], limits=tight)
    assert found.action == "deny_ordinary_continuation"


def test_a_stop_wins_over_a_denial_and_a_denial_comes_back_after_it() -> None:
    last = Standing(constrained=True, refusals=2)
    assert after_turn(last, PARSER, [turn()]).action == "deny_ordinary_continuation"
    stopped = after_turn(last, PARSER, [turn()], gate="operator_stop")
    assert (stopped.action, stopped.state) == ("finalize_without_provider_turn", "pending")
    assert (stopped.standing.refusals, stopped.standing.denied) == (2, False)
    assert after_turn(stopped.standing, PARSER, [turn()]).action == "deny_ordinary_continuation"


def test_where_writing_is_not_allowed_no_write_is_asked_for() -> None:
    found = told(PARSER, turn(Wrote(path="src/parser.py", refused=True, before=A, after=A)))
    assert found.closes == "A write was rejected here: do what is allowed, or give a verdict in your report."


def test_a_declaration_is_void_once_the_mind_does_something_else() -> None:
    strays = [Wrote(path=f"src/{n}.py", ok=True, before=ABSENT, after=A) for n in range(3)]
    assert told(PLAN, turn(*strays)).cause == "not_credible"
    assert told(PLAN, turn(*reads(8))).cause == "not_credible"
    assert told(PLAN, turn(Looked(target="spec", ok=True), *reads(8))).cause == "declared_stage"


def test_a_failed_read_of_a_declared_input_is_no_progress() -> None:
    for ok in (False, None):
        assert told(PLAN, turn(Looked(target="docs/spec.md", ok=ok))).standing.inputs == ()
    assert len(told(PLAN, turn(Looked(target="/srv/tree/./docs/spec.md", ok=True))).standing.inputs) == 1


def test_the_record_says_what_a_stage_needs_next_without_a_path() -> None:
    shown = record(told(PLAN, turn(*reads(1))), PLAN)
    assert shown["authoring_next_action"] == "read_declared_inputs"
    assert len(shown["authoring_declared_input_fingerprints"]) == 1
    assert shown["authoring_observed_input_fingerprints"] == []
    read = record(told(PLAN, turn(Looked(target="spec", ok=True))), PLAN)
    assert read["authoring_next_action"] == "write_declared_output"
    assert read["authoring_observed_input_fingerprints"] == read["authoring_declared_input_fingerprints"]
    wrote = Wrote(path="docs/plan.md", ok=True, before=ABSENT, after=A)
    done = record(told(PLAN, turn(Looked(target="spec", ok=True), wrote)), PLAN)
    assert done["work_convergence_action"] == "finalize_without_provider_turn"
    assert done["authoring_next_action"] == "none"
    assert resumed(json.loads(json.dumps(done))).satisfied


# Inside a turn ----------------------------------------------------------------------------------------------------------


def test_eight_reads_are_allowed_three_are_refused_and_the_next_is_denied() -> None:
    found = asked(PARSER, *(f"src/{n}.py" for n in range(12)))
    assert [one.allowed for one in found] == [True] * 8 + [False] * 4
    assert [one.admission.action for one in found[8:]] == ["constrain_next_turn"] * 3 + ["deny_ordinary_continuation"]
    assert found[8].reason == (
        "work convergence: refused after 8 things looked at, 0 times again, and nothing closed. What closes this: a change "
        "of a file that the goal is about, or a verdict in your report. Looking goes on after that."
    )
    assert "this turn is over" in found[11].reason


def test_the_fourth_reread_is_refused() -> None:
    assert [one.allowed for one in asked(PARSER, *["a.py"] * 5)] == [True] * 4 + [False]


def test_another_part_of_a_file_and_a_file_that_was_changed_are_new() -> None:
    standing = Standing()
    for part in "1234":
        ruling = before_call(standing, PARSER, Call(kind="read", target="a.py", part=part))
        standing = ruling.admission.standing
    assert (standing.targets, standing.rereads) == (4, 0)
    changed = Wrote(path="zzz.py", ok=True, before=A, after=B)
    for since in ([], [changed], []):
        standing = before_call(standing, PARSER, Call(kind="read", target="zzz.py"), since=since).admission.standing
    assert standing.rereads == 1


def test_once_denied_nothing_is_left_but_the_report() -> None:
    goal = Goal(words="parser", expects=True, report="/given/report.json")
    denied = Standing(denied=True, refusals=3)
    for kind, target in (("read", "a"), ("write", "src/parser.py"), ("run", CHECK), ("other", "")):
        assert not before_call(denied, goal, Call(kind=kind, target=target)).allowed  # type: ignore[arg-type]
    report = before_call(denied, goal, Call(kind="write", target="/given/report.json"))
    assert report.allowed
    assert "/given/report.json" in before_call(denied, goal, Call(kind="read", target="a")).reason


def test_a_shell_line_that_only_looks_is_a_read_and_one_that_may_write_never_is() -> None:
    looks = [f"bash -lc 'cat src/{n}.py | head -20'" for n in range(9)]
    assert [one.allowed for one in asked(PARSER, *looks, kind="run")] == [True] * 8 + [False]
    full = asked(PARSER, *looks[:8], kind="run")[-1].admission.standing
    for line in ("cat > src/parser.py <<EOF", "git commit -qm x", "sed -i s/a/b/ x", "python3 write.py", CHECK):
        assert before_call(full, PARSER, Call(kind="run", target=line)).allowed, line


def test_the_same_check_again_without_a_change_is_a_reread_and_after_one_it_is_not() -> None:
    assert [one.allowed for one in asked(PARSER, *[CHECK] * 5, kind="run")] == [True] * 4 + [False]
    standing = Standing()
    for number in range(9):
        beside = Wrote(path="zzz.py", ok=True, before=blob(b"%d" % number), after=blob(b"%d" % (number + 1)))
        ruling = before_call(
            standing, PARSER, Call(kind="run", target=CHECK), since=[beside, Ran(command=CHECK, ok=False)]
        )
        standing = ruling.admission.standing
        assert ruling.allowed


def test_a_fresh_mind_has_the_whole_budget_and_knows_what_is_red() -> None:
    spent = told(PARSER, turn(*reads(20)), standing=Standing(failed=("tests",))).standing
    standing = begun(spent, fresh=True)
    assert (standing.targets, standing.failed) == (0, ("tests",))
    assert before_call(standing, PARSER, Call(kind="read", target="src/0.py")).admission.frontier == "verifier_recovery"
    assert not before_call(begun(spent, fresh=False), PARSER, Call(kind="read", target="new.py")).allowed


def test_other_commands_have_a_budget_of_their_own() -> None:
    found = asked(PARSER, *(f"make step{n}" for n in range(Thresholds().runs + 1)), kind="run")
    assert [one.allowed for one in found] == [True] * Thresholds().runs + [False]


@pytest.mark.parametrize(
    ("before", "after", "label"),
    [(A, A, "no_op"), (blob(b"a b"), blob(b"ab"), "whitespace"), (ABSENT, blob(b" "), "whitespace")],
)
def test_a_write_that_does_not_count_gives_no_budget_back_and_says_why(before: Blob, after: Blob, label: str) -> None:
    standing = asked(PARSER, *(f"{n}" for n in range(9)))[-1].admission.standing
    wrote = Wrote(path="src/parser.py", ok=True, before=before, after=after)
    ruling = before_call(standing, PARSER, Call(kind="read", target="new"), since=[wrote])
    assert not ruling.allowed
    assert record(ruling.admission, PARSER)["work_convergence_uncounted"] == [label]
    assert ruling.admission.standing.refusals == 2


def test_changes_beside_the_goal_give_the_budget_back_three_times_and_close_nothing() -> None:
    standing = Standing()
    allowed = 0
    for number in range(6):
        wrote = Wrote(path=f"zzz{number}.py", ok=True, before=ABSENT, after=A)
        for place in range(8):
            since = [wrote] if place == 0 and number else []
            call = Call(kind="read", target=f"{number}/{place}")
            ruling = before_call(standing, PARSER, call, since=since)
            standing, allowed = ruling.admission.standing, allowed + ruling.allowed
            assert ruling.admission.state != "satisfied"
    assert allowed == 8 * (1 + Thresholds().strays)


def test_changes_while_a_check_stays_red_give_the_budget_back_a_bounded_number_of_times() -> None:
    standing, refused = Standing(failed=("tests",)), []
    for number in range(Thresholds().mutations + 2):
        wrote = Wrote(path="src/parser.py", ok=True, before=blob(b"%d" % number), after=blob(b"%d" % (number + 1)))
        for place in range(8):
            since = [wrote] if place == 0 else []
            ruling = before_call(standing, PARSER, Call(kind="read", target=f"{number}/{place}"), since=since)
            standing = ruling.admission.standing
            refused += [number] * (not ruling.allowed)
    assert set(refused) == {Thresholds().mutations, Thresholds().mutations + 1}


# What is known of acts and files ------------------------------------------------------------------------------------------


def test_acts_beside_what_git_shows() -> None:
    acts = [
        Act(kind="read", target="src/a.py", ok=True),
        Act(kind="read", target="src/b.py", refused=True),
        Act(kind="search", target="def", ok=True),
        Act(kind="write", target="/srv/tree/src/parser.py", ok=True),
        Act(kind="write", target="src/parser.py", ok=True),
        Act(kind="write", target="src/same.py", ok=True),
        Act(kind="run", target="make gen", ok=True),
        Act(kind="other", target="todo", ok=True),
    ]
    found = facts_of(acts, {"src/parser.py": (A, B), "gen.py": (ABSENT, C)}, PARSER)
    assert found == (
        Looked(target="src/a.py", ok=True),
        Looked(target="def", ok=True, search=True),
        Wrote(path="src/parser.py", ok=True, before=A, after=B),
        Wrote(path="src/same.py", ok=True, before=ABSENT, after=ABSENT),
        Ran(command="make gen", ok=True),
        Wrote(path="gen.py", ok=True, before=ABSENT, after=C),
    )


@pytest.mark.parametrize(
    ("acts", "ok"),
    [
        ((), True),
        ((Act(kind="run", target="make", ok=True),), True),
        ((Act(kind="run", target="make", ok=False),), None),
        ((Act(kind="run", target="cat x", ok=True),), None),
        ((Act(kind="read", target="x", ok=True),), None),
    ],
)
def test_a_change_that_no_act_names_needs_somebody_who_made_it(acts: tuple[Act, ...], ok: bool | None) -> None:
    [found] = [fact for fact in facts_of(acts, {"src/parser.py": (A, B)}, PARSER) if isinstance(fact, Wrote)]
    assert found.ok is ok


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.txt", "read"),
        ("cd src && sed -n 1,40p a.py | head", "read"),
        ("bash -lc 'rg -n \"a > b\" src; ls'", "read"),
        ('/bin/zsh -lc "git log --oneline | head"', "read"),
        ("LC_ALL=C grep -rn x . 2>/dev/null", "read"),
        ("find . -name '*.py'", "read"),
        ("git diff HEAD~1 2>&1", "read"),
        ("echo hi > a.txt", "write"),
        ("cat <<'EOF' >> a.txt\nx\nEOF", "write"),
        ("printf x>a", "write"),
        ("ls | tee out", "write"),
        ("sed -i.bak s/a/b/ f", "write"),
        ("find . -name x -delete", "write"),
        ("git add -A && git commit -m 'x'", "write"),
        ("bash -lc 'apply_patch <<EOF'", "write"),
        ("python3 -m pytest -q", "run"),
        ("cat a && make", "run"),
        ("cat $(make)", "run"),
        ("cat `make`", "run"),
        ("cd src", "run"),
        ("", "run"),
        ("'", "run"),
    ],
)
def test_what_a_command_line_does(command: str, expected: str) -> None:
    assert nature(command) == expected


def test_the_command_inside_a_shell_is_the_command() -> None:
    assert plain("bash -lc 'python3  -m pytest   -q'") == CHECK
    assert plain("/bin/sh -c \"bash -c 'make'\"") == "make"


def test_a_check_of_its_own_counts_only_where_its_exit_is_the_lines() -> None:
    red = Standing(failed=("tests",))
    for line in (CHECK, f"cd src && {CHECK}", f"bash -lc '{CHECK}'"):
        assert (
            before_call(red, PARSER, Call(kind="other"), since=[Ran(command=line, ok=True)]).admission.standing.failed
            == ()
        )
    for line in (f"{CHECK} || true", f"echo '{CHECK}'", f"{CHECK}; true", f"{CHECK} -k nothing"):
        kept = before_call(red, PARSER, Call(kind="other"), since=[Ran(command=line, ok=True)]).admission.standing
        assert kept.failed == ("tests",), line


@pytest.mark.parametrize(
    ("path", "aliases", "expected"),
    [
        ("/srv/tree/src/a.py", {}, "src/a.py"),
        ("./src/../src//a.py", {}, "src/a.py"),
        ("/srv/treehouse/a.py", {}, "/srv/treehouse/a.py"),
        ("/srv/tree/../x", {}, "/srv/x"),
        ("../x", {}, "../x"),
        ("spec", {"spec": "docs/spec.md"}, "docs/spec.md"),
        ("/mnt/t/src/a.py", {"/mnt/t": "/srv/tree"}, "src/a.py"),
        ("specs/a", {"spec": "docs"}, "specs/a"),
        ("", {}, ""),
    ],
)
def test_one_spelling_of_a_path(path: str, aliases: dict[str, str], expected: str) -> None:
    assert canonical(path, root="/srv/tree", aliases=aliases) == expected


@pytest.mark.parametrize(
    ("path", "words", "expected"),
    [
        ("src/parser.py", "Add a parser", True),
        ("src/date_parser.py", "Add a Parser", True),
        ("src/main/java/InvoiceTotal.java", "rounding in InvoiceTotal is wrong", True),
        ("done.txt", "done.txt says yes.", True),
        (".env.example", "document .env.example", True),
        ("src/oauth/__init__.py", "log in with OAuth", True),
        ("src/app.py", "FAILED tests/test_x.py - src/app.py:12", True),
        ("src/session.py", "add a login form", False),
        ("scratch.txt", "done.txt says yes", False),
        ("notes.txt", "Add a parser to src/parser.py", False),
        ("test.py", "make the tests pass", False),
        ("a", "fix a bug", False),
    ],
)
def test_what_a_goal_is_about(path: str, words: str, expected: bool) -> None:
    assert relevant(path, words) is expected


def test_blobs_tell_bytes_and_ink_apart() -> None:
    assert blob(b"a b").ink == blob(b" a\tb\r\n").ink == blob("a\u00a0\u200bb".encode()).ink
    assert blob(b"a b").id != blob(b"ab").id
    assert blob(b" \n").ink == blob(b"").ink == ABSENT.ink == ""
    assert blob(b"") != ABSENT == Blob()
    assert blob(b"\0 a").ink != blob(b"\0a").ink, "in a binary file a blank is content"
    assert blob(b"\xff a").ink == blob(b"\xffa").ink


# Stages ---------------------------------------------------------------------------------------------------------------

DECLARED = """---
description: Plan it - what: is needed
inputs:
  - docs/spec.md   # the text
  - "docs/a b.md"
output: 'docs/plan.md'
aliases:
  spec: docs/spec.md
  "the plan": docs/plan.md
---
inputs: none
"""


def test_a_command_declares_its_stage_in_its_front_matter(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(DECLARED)
    (tmp_path / "other.md").write_text("---\ndescription: no stage\n---\n")
    found = read_stage(tmp_path / "plan.md")
    aliases = {"spec": "docs/spec.md", "the plan": "docs/plan.md"}
    assert found == Stage(name="plan", inputs=("docs/spec.md", "docs/a b.md"), output="docs/plan.md", aliases=aliases)
    assert read_stage(tmp_path / "other.md") is read_stage(tmp_path / "missing.md") is None


def test_the_short_form_says_the_same() -> None:
    text = (
        "---\ninputs: [docs/spec.md, 'docs/a, b.md']\noutput: docs/plan.md # here\naliases: {spec: docs/spec.md}\n---\n"
    )
    found = stage_of(text, "plan")
    assert found is not None
    assert (found.inputs, found.output) == (("docs/spec.md", "docs/a, b.md"), "docs/plan.md")
    assert found.aliases == {"spec": "docs/spec.md"}


@pytest.mark.parametrize(
    "text", ["", "output: x", "---\noutput: x", "---\ndescription: x\n---\noutput: y", "\n---\noutput: x\n---"]
)
def test_a_text_without_our_keys_declares_nothing(text: str) -> None:
    assert stage_of(text, "plan") is None


@pytest.mark.parametrize(
    "lines",
    [
        "inputs: [a]",
        "output: ../x",
        "output: /x",
        "output: ~/x",
        "output: a*",
        "output: .git/x",
        "output:",
        "output: x\naliases:\n  foo",
    ],
)
def test_a_stage_that_cannot_be_is_refused_with_what_to_write(lines: str) -> None:
    with pytest.raises(Refused) as refused:
        stage_of(f"---\n{lines}\n---\n", "plan")
    assert "plan" in refused.value.message
    assert "output: docs/plan.md" in refused.value.hint


def test_our_own_commands_declare_no_stage_by_accident() -> None:
    assert [path for path in (ROOT / "commands").glob("*.md") if read_stage(path) is not None] == []


# The benchmark ----------------------------------------------------------------------------------------------------------


def test_who_makes_the_transcripts_knows_nothing_of_who_judges_them() -> None:
    source = Path(transcripts.__file__).read_text(encoding="utf-8")
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not {name for name in imported if name.startswith("orchconverge")}


def test_every_edge_is_among_two_hundred_transcripts_and_half_of_them_converge() -> None:
    found = list(transcripts.generated(200, 1))
    assert {one.edge for one in found} == {"", *transcripts.EDGES}
    assert sum(not one.edge for one in found) == 100
    assert len({shape.__name__ for shape in transcripts.SHAPES}) == 20


def test_a_captured_transcript_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = list(transcripts.generated(44, 3))
    for number, one in enumerate(made):
        (tmp_path / f"{number:02}.jsonl").write_text(transcripts.written(one))
    for number, (one, back) in enumerate(zip(made, transcripts.captured(tmp_path), strict=True)):
        assert back == type(one)(**{**vars(one), "name": f"{number:02}"})


@pytest.mark.parametrize(
    "text", ["", "{}\n", '{"words": "x"}\n{"kind": "read"}\n', "no json\n", '{"words": "x"}\n{"turn": 1}\n']
)
def test_a_captured_transcript_that_is_cut_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "cut.jsonl").write_text(text)
    with pytest.raises(ValueError, match=r"cut\.jsonl"):
        list(transcripts.captured(tmp_path))


def test_no_gaming_transcript_is_credited_and_no_converging_one_denied(tmp_path: Path) -> None:
    argv = [sys.executable, str(ROOT / "benchmarks" / "admission.py"), "--json"]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found["transcripts"]["converging"] >= 100
    assert found["transcripts"]["gaming"] >= 100
    assert not any(found["gaming_credited"].values())
    # a converging transcript that is called gaming is credited, and that is said and is an error
    honest = next(one for one in transcripts.generated(2, 1) if not one.edge)
    lie = (
        transcripts.written(honest)
        .replace('"edge": ""', '"edge": "a lie"')
        .replace('"closes": true', '"closes": false')
    )
    (tmp_path / "lie.jsonl").write_text(lie)
    wrong = subprocess.run([*argv, "--captured", str(tmp_path)], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1, wrong.stdout + wrong.stderr
    assert json.loads(wrong.stdout)["gaming_credited"]["git"] == ["lie"]


def test_work_of_no_known_class_needs_a_check_to_show_it() -> None:
    unknown = Goal(words="a parser")
    wrote = Wrote(path="src/parser.py", ok=True, before=A, after=B)
    alone = told(unknown, turn(wrote))
    assert (alone.frontier, alone.cause, alone.state) == ("verifier_recovery", "unknown_class", "pending")
    shown = told(unknown, turn(wrote, checks=(Checked(name="tests", met="yes", gained=True),)))
    assert shown.state == "satisfied"


@pytest.mark.parametrize("met", ["error", "unstable"])
def test_a_check_that_cannot_run_or_says_two_things_is_red_even_without_work(met: str) -> None:
    found = told(PARSER, turn(*reads(1), checks=(Checked(name="tests", met=met),)))  # type: ignore[arg-type]
    assert found.cause == "failed_check"


def test_what_is_claimed_and_red_is_a_failed_check() -> None:
    gained = Checked(name="style", met="yes", gained=True)
    red = Checked(name="tests", met="no")
    wrote = Wrote(path="src/parser.py", ok=True, before=A, after=B)
    assert told(PARSER, turn(wrote, checks=(gained, red))).state == "satisfied"
    found = told(PARSER, turn(wrote, checks=(gained, red), claims=("tests",)))
    assert (found.state, found.cause) == ("pending", "failed_check")


def test_a_verdict_says_something() -> None:
    assert told(PARSER, turn(verdict=Verdict(kind="cannot", text=" \n"))).state == "pending"


def test_an_honest_verdict_is_believed_and_a_false_one_is_not() -> None:
    red = (Checked(name="tests", met="no"),)
    said = Verdict(kind="already_done", text="it passes here")
    assert told(PARSER, turn(verdict=said, checks=red)).state == "pending"
    assert told(PARSER, turn(verdict=Verdict(kind="cannot", text="no key"), checks=red)).state == "satisfied"
