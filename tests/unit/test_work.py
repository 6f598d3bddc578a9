"""Work convergence on every surface: status, JSON, report, export and trace say the same, in labels or in plain English."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.core.admission import Checked, Gate, Turn, after_turn
from orchconverge.core.admission_record import record
from orchconverge.core.export import export
from orchconverge.core.fingerprints import blob
from orchconverge.core.frontiers import Goal, Looked, Standing, Wrote
from orchconverge.core.projection import ATTEMPTS_AT_MOST, Probes, project
from orchconverge.core.target import Stage
from orchconverge.core.views import trace as tracing
from orchconverge.core.views import work as view
from orchconverge.core.views.report import report
from orchconverge.core.views.status import verbose
from orchconverge.core.views.text import clean
from orchconverge.core.work_record import Labels, Record, Told, without_fingerprints
from tests.stories import CHECKOUT, Story

NAMED_IN_THE_SEED = {
    "work_convergence_frontier",
    "work_convergence_state",
    "work_convergence_action",
    "work_convergence_source",
    "work_convergence_error",
    "authoring_declared_input_fingerprints",
    "authoring_declared_output_fingerprint",
    "authoring_observed_input_fingerprints",
    "authoring_next_action",
}
ROOT = CHECKOUT
GOAL = Goal(words="make src/login.py log people in", checks={"login": "pytest"}, expects=True, root=ROOT)
PLAN = Stage(name="plan", inputs=("docs/spec.md", "docs/notes.md"), output="docs/plan.md")
TYPED = Goal(words="the plan", stage=PLAN, expects=True, root=ROOT)


def reads(*names: str) -> tuple[Looked, ...]:
    return tuple(Looked(target=f"{ROOT}/{name}", ok=True) for name in names)


def wrote(path: str) -> Wrote:
    return Wrote(path=f"{ROOT}/{path}", ok=True, before=blob(b"a"), after=blob(b"quite another text"))


MANY = reads(*(f"src/part{n}.py" for n in range(9)))
RED = Checked(name="login", met="no", held=True)


def of(
    goal: Goal, *turns: Turn, gate: Gate = "", how: str = "hooks", asked: int = 0, refused: int = 0, unasked: int = 0
) -> dict[str, Any]:
    """The record after these turns, one after the other, with how the calls of the last met admission."""
    standing = Standing()
    for turn in turns:
        admission = after_turn(standing, goal, [turn], gate=gate)
        standing = admission.standing
    return {**record(admission, goal), "admission": how, "asked": asked, "refused": refused, "unasked": unasked}


ALLOWED = of(GOAL, Turn(facts=reads("src/login.py")), asked=1)
CONSTRAINED = of(GOAL, Turn(facts=MANY), asked=12, refused=2)
DENIED = of(GOAL, *(Turn(facts=MANY) for _ in range(6)), how="between")
FAILED = of(
    GOAL, Turn(facts=(wrote("src/login.py"),), checks=(RED,)), *(Turn(facts=MANY, checks=(RED,)) for _ in range(6))
)
READING = of(TYPED, Turn(facts=(*reads("docs/spec.md"), *MANY)))
CLOSED = of(TYPED, Turn(facts=(*reads("docs/spec.md", "docs/notes.md"), wrote("docs/plan.md")), holds=True))
GATED = of(GOAL, Turn(facts=MANY), gate="approval_gate")
LOST = of(GOAL, Turn(facts=reads("src/login.py")), how="lost", asked=3, unasked=7)
ALL = {
    "allowed": ALLOWED,
    "constrained": CONSTRAINED,
    "denied": DENIED,
    "failed": FAILED,
    "reading": READING,
    "closed": CLOSED,
    "gated": GATED,
    "lost": LOST,
}
SAID = {
    "allowed": "goes on: authoring what the goal expects, not closed yet; "
    "what closes it: a change of a file that the goal is about, or an honest verdict",
    "constrained": "constrained: authoring what the goal expects, not closed yet; "
    "what closes it: a change of a file that the goal is about, or an honest verdict",
    "denied": "denied to go on as it did: recovering since it read the same things again, did not close; "
    "what closes it: a change of a file that the goal is about, or an honest verdict",
    "failed": "denied to go on as it did: recovering from a failed check, did not close, and a check is red; "
    "what closes it: a change that makes login pass, or an honest verdict",
    "reading": "constrained: authoring what its stage declares, not closed yet; "
    "what closes it: reading the declared inputs, then writing the declared output",
    "closed": "finished without another turn: authoring what its stage declares, closed",
    "gated": "constrained: authoring what the goal expects, not closed yet; a person is asked first",
    "lost": "goes on: authoring what the goal expects, not closed yet; "
    "what closes it: a change of a file that the goal is about, or an honest verdict",
}
PLAIN = ("allowed", "closed")
QUIET = ("allowed", "lost")
"""Those of which the status says nothing: the next turn is allowed as any other."""


def story(*records: dict[str, Any]) -> Story:
    told = Story().declare(attempts=100, hours=100.0).start(attempts=100, hours=100.0, place="here").check()
    for number, one in enumerate(records, 1):
        told.begin().wait(60.0, basin="auth").ended(f"auth.{number}").failed(f"auth.{number}", "committed nothing")
        told.judge(result="no_progress", text="missing oauth", work=one)
    return told


def written(told: Story) -> str:
    return report(told.state, "auth", now=told.now, seq_from=1, seq_to=told.seq, bad=0, facts=told.facts)


def shown(told: Story) -> dict[str, Any]:
    whole = project(told.state, probes=Probes(leases={"auth": True}), now=told.now)
    return msgspec.json.decode(msgspec.json.encode(whole))["basins"][0]


# --- in words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_each_is_said_in_one_sentence_with_what_closes_it(name: str) -> None:
    assert view.sentence(view.read(ALL[name], Labels)) == SAID[name]


@pytest.mark.parametrize("name", ALL)
def test_the_long_status_has_a_line_only_where_the_turn_is_not_allowed_as_any_other(name: str) -> None:
    told = story(ALL[name])
    lines = [
        line
        for line in verbose(project(told.state, probes=Probes(), now=told.now)).splitlines()
        if line.startswith("Admission: ")
    ]
    error = " (work_convergence_unsatisfied)" if name in ("denied", "failed") else ""
    assert lines == ([] if name in QUIET else [f"Admission: {SAID[name]}{error}"])


def test_a_run_that_ended_unsatisfied_says_so_even_without_a_record() -> None:
    told = story({})
    told.stop("unsatisfied")
    assert shown(told)["work_convergence_error"] == "work_convergence_unsatisfied"
    lines = verbose(project(told.state, probes=Probes(), now=told.now)).splitlines()
    assert "Admission: work_convergence_unsatisfied" in lines


def test_how_its_calls_met_admission_is_said_with_counts() -> None:
    assert view.asked(view.read(CONSTRAINED, Told)) == "asked before each call: 12 asked, 2 refused"
    assert view.asked(view.read(LOST, Told)) == "calls stopped asking: 3 asked, 7 made without asking"
    assert view.asked(view.read(DENIED, Told)) == "asked between attempts alone"
    assert view.asked(Told()) == ""


# --- the report ------------------------------------------------------------------------------------------------------


def test_the_report_tells_each_attempt_that_did_not_simply_go_on() -> None:
    section = written(story(*ALL.values())).split("## Work convergence\n")[1].split("\n## ")[0]
    told = re.findall(r"^- Attempt (\d+): (.*)$", section, re.MULTILINE)
    names = list(ALL)
    assert [names[int(number) - 1] for number, _ in told] == [name for name in ALL if name not in PLAIN]
    assert told[0][1].startswith("constrained: authoring what the goal expects")
    assert told[0][1].endswith("(asked before each call: 12 asked, 2 refused)")
    assert "## Work convergence" not in written(story(ALLOWED, CLOSED, {}))


def test_the_report_explains_a_denial() -> None:
    text = written(story(ALLOWED, DENIED))
    assert (
        "**Denied after attempt 2** (`work_convergence_unsatisfied`): 9 new things looked at, 45 known ones again, 5 refusals. "
        "What would have closed it: a change of a file that the goal is about, or an honest verdict. "
        "It says that the work did not close, not that it cannot."
    ) in text
    assert text.count("**Denied after") == 1


def test_what_did_not_count_is_named() -> None:
    unrelated = of(
        GOAL,
        Turn(facts=(wrote("css/grid.css"), Wrote(path="src/login.py", ok=True, before=blob(b"a"), after=blob(b"a")))),
    )
    assert (
        view.motion(view.read(unrelated, Labels))
        == "0 new things looked at; changes that did not count: unrelated, no-op"
    )


# --- as data ---------------------------------------------------------------------------------------------------------


def test_json_has_the_newest_record_flat_and_whole_and_each_attempts_labels() -> None:
    found = shown(story(ALLOWED, DENIED))
    newest = {key: value for key, value in found.items() if key.startswith(("work_convergence_", "authoring_"))}
    assert newest.keys() == set(Record.__struct_fields__) > NAMED_IN_THE_SEED
    assert newest == {key: DENIED[key] for key in newest}
    assert newest["work_convergence_source"] == "work_convergence"
    assert newest["work_convergence_error"] == "work_convergence_unsatisfied"
    first, last = found["attempts"]
    assert (first["attempt"], first["result"], first["decision"], first["charged"]) == (
        1,
        "no_progress",
        "IN_PROGRESS",
        True,
    )
    assert last == without_fingerprints(DENIED) | {
        key: last[key] for key in ("attempt", "result", "decision", "charged")
    }
    assert (first["admission"], first["asked"], last["admission"]) == ("hooks", 1, "between")


def test_keys_are_there_before_anything_is_recorded() -> None:
    found = shown(story({}))
    assert set(Record.__struct_fields__) <= found.keys()
    assert found["work_convergence_frontier"] is found["work_convergence_action"] is None
    assert found["work_convergence_target_fingerprints"] == []
    assert found["attempts"][0]["admission"] is None


def test_of_many_attempts_the_newest_are_listed() -> None:
    found = shown(story(*[ALLOWED] * (ATTEMPTS_AT_MOST + 2)))["attempts"]
    assert [one["attempt"] for one in found] == list(range(3, ATTEMPTS_AT_MOST + 3))


def test_the_export_has_the_labels_with_each_attempt_and_the_newest_record_on_top() -> None:
    told = story(ALLOWED, DENIED)
    document = export(told.state, "auth", seq=told.seq)
    logged = document["convergence_log"][1]
    assert logged == logged | without_fingerprints(DENIED)
    assert (logged["attempt"], logged["result"]) == (2, "no_progress")
    assert document == document | {k: v for k, v in DENIED.items() if k.startswith(("work_convergence_", "authoring_"))}
    hostile = story({"attempt": 99, "status": "CONVERGED", "work_convergence_state": "pending"})
    document = export(hostile.state, "auth", seq=hostile.seq)
    assert document["convergence_log"][0]["attempt"] == 1
    assert document["status"] != "CONVERGED"


@pytest.mark.parametrize("name", ALL)
def test_the_trace_has_every_key_of_the_record_and_its_sentence(name: str) -> None:
    told = story(ALL[name])
    found = tracing.trace(told.facts, "auth", 1)
    assert found is not None
    assert found.work_convergence == ALL[name]
    said = tracing.text(found, told.now)
    assert f"\nWork convergence: {SAID[name]}\n  {view.asked(view.read(ALL[name], Told))}\n" in said
    for key, value in ALL[name].items():
        assert (f"  {key}: " in said) is (value not in (None, [], ""))


# --- bounded, and no paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_no_surface_names_a_path_that_was_looked_at_or_written(name: str) -> None:
    told = story(ALL[name])
    found = tracing.trace(told.facts, "auth", 1)
    assert found is not None
    section = written(told).partition("## Work convergence\n")[2].partition("\n## ")[0]
    surfaces = (
        verbose(project(told.state, probes=Probes(), now=told.now)),
        json.dumps(shown(told)),
        json.dumps(export(told.state, "auth", seq=told.seq)),
        tracing.text(found, told.now),
        json.dumps(found.work_convergence),
        section,
    )
    for text in surfaces:
        assert not re.search(re.escape(ROOT) + r"|src/|docs/|part\d|plan\.md", text)


def test_a_record_with_all_that_it_can_hold_stays_small() -> None:
    much = of(GOAL, Turn(facts=reads(*(f"src/{n}" for n in range(500)))))
    assert len(json.dumps(shown(story(much)))) < 8 << 10


@given(
    st.dictionaries(
        st.sampled_from([*Record.__struct_fields__, *Told.__struct_fields__, "else"]),
        st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=80)),
    )
)
def test_any_record_of_a_ledger_is_shown_harmless_and_bounded(recorded: dict[str, Any]) -> None:
    told = view.read(recorded, Told)
    whole = view.read(recorded, Record)
    for one in (view.sentence(told), view.motion(told), view.asked(told), *whole.work_convergence_target_fingerprints):
        assert one == clean(one)
    assert len(whole.work_convergence_target_fingerprints) <= view.MOST
