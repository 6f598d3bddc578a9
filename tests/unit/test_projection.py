"""What is shown of a state: the keys, what needs a person, how active time is told, the export, and what it costs to load."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta, timezone

import msgspec
import pytest
from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.happened import _WORDS, happened
from orchconverge.core.measures import active_seconds, first_met_by, nearest, trend
from orchconverge.core.needs import ORDER
from orchconverge.core.projection import PHASES, Damage, Probes, Projection, exit_code, export, project
from orchconverge.core.reducer import CASES, Fold
from orchconverge.core.standing import unaccepted
from orchconverge.core.target import Criterion
from orchconverge.core.views.status import line, verbose
from orchconverge.core.views.text import cells
from tests import stories, tellings
from tests.stories import Story
from tests.tellings import MET

TOP = "schema as_of utc_offset ledger needs_you next_event shown basins lock frontier events controller quota attach"
BASIN = (
    "id macrostate phase decision group criteria met required pending_at_lock trend attempt active_hours usd limit_first "
    "waits_for place target session strategy minds branches residue frontier attempts "
    "work_convergence_frontier work_convergence_cause work_convergence_state work_convergence_action "
    "work_convergence_source work_convergence_error work_convergence_overruled work_convergence_failed_checks "
    "work_convergence_uncounted work_convergence_targets work_convergence_rereads work_convergence_runs "
    "work_convergence_refusals work_convergence_compactions work_convergence_mutations work_convergence_strays "
    "work_convergence_constrained work_convergence_target_fingerprints work_convergence_state_fingerprints "
    "authoring_declared_input_fingerprints authoring_declared_output_fingerprint authoring_observed_input_fingerprints "
    "authoring_next_action "
    "goal status elapsed progress last_result tmux_session next_attempt "
    "stall uncharged tokens engines permissions final_steps controller attach"
)


def words(keys: str) -> list[str]:
    return sorted(keys.split())


def shown(story: Story, **probes: object) -> Projection:
    held = {"auth": True, "mfa": True}
    return project(story.state, probes=Probes(**({"leases": held, "tmux": held} | probes)), now=story.now)


def json(projection: Projection) -> dict:
    return msgspec.json.decode(msgspec.json.encode(projection))


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "story", [Story(), Story().declare(), tellings.running(), tellings.at_lock(), tellings.converged()]
)
def test_keys_never_vanish(story: Story) -> None:
    whole = json(project(story.state, probes=Probes(), now=story.now, recent=story.facts))
    assert sorted(whole) == words(TOP)
    for basin in whole["basins"]:
        assert sorted(basin) == words(BASIN)
    for name, keys in (
        ("needs_you", "basin branch command kind sentence since"),
        ("frontier", "basin blocks from question"),
        ("events", "at basin detail seq type what"),
    ):
        for item in whole[name]:
            assert sorted(item) == words(keys)
    for item in whole["lock"]["queue"]:
        assert sorted(item) == words("adds basin branch flags loses met since")
    assert sorted(whole["lock"]) == ["queue", "target"]
    assert sorted(whole["next_event"]) == ["at", "what"]
    assert {"seq", "bad"} <= set(whole["ledger"])


def test_status_begins_with_the_phase_word() -> None:
    for telling in (tellings.running, tellings.at_lock, tellings.limited, tellings.stalled, tellings.converged):
        basin = shown(telling()).basins[0]
        assert basin.phase in PHASES
        assert basin.status.startswith(f"{basin.phase} (attempt ")


def test_no_time_in_json_is_local() -> None:
    east = tellings.running().now.astimezone(timezone(timedelta(hours=9)))
    whole = json(project(tellings.running().state, probes=Probes(), now=east))
    assert whole["as_of"].endswith("Z")
    assert whole["utc_offset"] == 9 * 3600


# --- phases and exit codes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("telling", "phase", "group", "code"),
    [
        (Story().declare, "WAITING", "waiting", 1),
        (tellings.running, "RUNNING", "moving", 1),
        (tellings.finalizing, "FINALIZING", "moving", 1),
        (tellings.at_lock, "AT LOCK", "need you", 5),
        (tellings.blocked, "VERDICT", "need you", 5),
        (tellings.stalled, "STALLED", "need you", 4),
        (tellings.limited, "LIMIT", "waiting", 3),
        (tellings.stopped, "STOPPED", "waiting", 1),
        (tellings.killed, "KILLED", "ended", 1),
        (tellings.refused, "KILLED", "ended", 2),
        (lambda: tellings.parked("quota", "no quota"), "WAITING", "waiting", 1),
        (lambda: tellings.parked("consent", "a command"), "WAITING", "need you", 5),
        (lambda: tellings.parked("tamper", "hooks"), "WAITING", "need you", 5),
        (lambda: tellings.parked("lock", "candidates"), "AT LOCK", "need you", 5),
        (lambda: tellings.parked("verdict", "cannot"), "VERDICT", "need you", 5),
        (lambda: tellings.stalled().start().stop("unsatisfied"), "STALLED", "need you", 4),
        (lambda: Story().declare().start().stop("error", "a bug"), "STOPPED", "waiting", 1),
    ],
)
def test_how_it_stands_in_a_word_a_group_and_an_exit_code(telling, phase: str, group: str, code: int) -> None:
    story = telling()
    basin = shown(story).basins[0]
    assert (basin.phase, basin.group, exit_code(story.state, "auth")) == (phase, group, code)


def test_converged_is_zero_even_while_the_last_steps_run() -> None:
    story = tellings.converged()
    assert exit_code(story.state, "mfa") == 0
    assert shown(story).basins[0].phase == "FINALIZING"
    assert shown(story.stop("converged", basin="mfa")).basins[0].phase == "CONVERGED"


def test_a_run_whose_controller_is_gone_waits_for_a_person() -> None:
    story = tellings.running()
    assert exit_code(story.state, "auth", lease=None) == 1
    assert exit_code(story.state, "auth", lease=False) == 5
    assert exit_code(story.state, "nobody") == 2


def test_unknown_is_a_phase_and_never_dead_or_done() -> None:
    for lease in (None, False):
        basin = shown(tellings.running(), leases={"auth": lease}).basins[0]
        assert (basin.phase, basin.group) == ("UNKNOWN", "waiting")
        assert "nothing changed" in basin.waits_for.what


def test_a_lost_tmux_session_is_said_with_what_restarts_it() -> None:
    for there, lease, said in (
        (True, True, ""),
        (False, False, " (not found, resume restarts it)"),
        (False, True, " (gone, its controller goes on: nothing to attach to)"),
        (None, True, " (tmux gave no answer)"),
    ):
        basin = shown(tellings.running(), tmux={"auth": there}, leases={"auth": lease}).basins[0]
        assert basin.tmux_session == stories.SESSION + said


def test_there_is_something_to_attach_to_only_while_a_session_is_there() -> None:
    line = {"auth": "tmux attach"}
    assert "Attach: tmux attach" in verbose(shown(tellings.running(), attach=line))
    for story, there in ((tellings.running(), False), (tellings.stopped(), True)):
        assert "Attach:" not in verbose(shown(story, attach=line, tmux={"auth": there}))


# --- what needs a person ---------------------------------------------------------------------------------------------


def everything() -> Story:
    """One basin for each kind of need."""
    story = Story()
    for name, reason in (("consent", "consent"), ("tamper", "tamper"), ("verdict", "verdict"), ("branch", "branch")):
        story.declare(name).start(name, tmux=name).park(reason, f"why {name}", basin=name).wait(60.0)
    story.declare("gone").start("gone")
    story.declare("error").start("error").stop("error", "a bug", basin="error")
    story.declare("limit", attempts=1).start("limit", attempts=1).check("limit")
    story.attempt("limit", met=(), result="no_progress").stop("limit", "1 of 1 attempts", basin="limit")
    story.declare("auth", lock="person").start().check(met=MET[:2]).begin(minds=2).wait(900.0)
    story.ended("auth.1").ended("auth.2").candidate("auth.1", met=MET).candidate("auth.2", met=MET)
    story.judge(met=MET[:2]).stop("waiting", "2 wait")
    story.tell(
        e.FrontierAdded(question="Which account may tests charge?", origin="auth.1", basin="auth", blocks="tests")
    )
    return story.tell(e.FrontierAdded(question="Is this worth asking?", origin="auth.1", basin="auth"))


def test_needs_come_in_their_order_and_of_the_lock_only_its_head() -> None:
    story = everything()
    leases = dict.fromkeys(story.state.basins, True) | {"gone": False}
    found = shown(story, leases=leases, ledger=Damage(lines=90, bad=2), silent={"gone": 360.0}).needs_you
    assert tuple(need.kind for need in found) == ORDER
    told = {need.kind: need for need in found}
    assert told["lock"].sentence == "Decide auth.1 at the lock: 2 of 8 becomes 6 of 8"
    assert told["lock"].command == "orchconverge lock auth"
    assert told["lock"].since == story.now - timedelta(seconds=300)
    assert told["ledger"].sentence == "2 damaged of 90 lines, skipped"
    assert told["controller"].sentence == "The controller of gone has not been seen for 6m 00s"
    assert told["limit"].command == "orchconverge resume limit --max-attempts 2"
    assert told["question"].sentence == "Answer: Which account may tests charge?"


def test_only_commands_that_exist_are_named() -> None:
    from orchconverge.cli import COMMANDS

    tellers = (
        *(Story().declare, tellings.running, tellings.at_lock, tellings.limited, tellings.stalled, tellings.blocked),
        *(tellings.stopped, tellings.killed, tellings.refused, tellings.finalizing, tellings.converged, everything),
    )
    for telling in tellers:
        story = telling()
        for name in story.state.basins:
            for lease in (True, False):
                leases = dict.fromkeys(story.state.basins, lease)
                probes = Probes(leases=leases, ledger=Damage(lines=9, bad=1))
                found = project(story.state, probes=probes, now=story.now, basin=name)
                said = verbose(found) + "".join(f"\n{need.command}" for need in found.needs_you)
                for word in re.findall(r"orchconverge (?:--)?([a-z]+)", said):
                    assert word in COMMANDS, said


def test_a_question_to_a_person_is_shown_whole_with_what_to_type() -> None:
    story, asks = Story().declare().start().check(met=MET[:2]), "needs the key of the vault, " * 20 + "whose is it?"
    for decision in ("IN_PROGRESS", "BLOCKED"):
        story.attempt(met=MET[:2], result="verdict", text="a verdict", verdict=asks, decision=decision)
    said = verbose(shown(story.stop("waiting", "a verdict")))
    assert f"Waits For: you: {asks}" in said
    assert ": orchconverge logs auth.2" in said
    assert "  go on    orchconverge resume auth --max-attempts 12" in said


def test_a_flagged_success_is_taken_or_mended() -> None:
    names = [c.name for c in stories.AUTH]
    story = Story().declare().start().check(met=MET[:2])
    story.attempt(met=names, result="success", text="fixed all, flagged CI", decision="BLOCKED")
    basin = shown(story.stop("waiting", "fixed all, flagged CI"))
    assert basin.needs_you[0].sentence == "Take or mend auth: fixed all, flagged CI"
    assert basin.needs_you[0].command == "orchconverge resume auth"
    assert unaccepted(story.basin())
    story.tell(e.BasinAmended(basin="auth", why="accepted: flagged CI"), writer="cli")
    assert not unaccepted(story.basin())


@pytest.mark.parametrize(
    ("met", "sentence"),
    [
        ([c.name for c in stories.AUTH], "Finish auth: every criterion is met"),
        (MET, f"Go on with auth: {len(MET)}/8 met, the lock is empty"),
    ],
)
def test_once_all_at_the_lock_is_decided_the_way_on_is_told(met: list[str], sentence: str) -> None:
    story = tellings.at_lock().graft("auth.1", met=met)
    assert shown(story).needs_you[0].command == "orchconverge lock auth"
    story.tell(e.BranchPruned(basin="auth", branch="auth.2", reason="covered", decidedBy="ann"), writer="cli")
    told = shown(story)
    assert (told.needs_you[0].sentence, told.needs_you[0].command) == (sentence, "orchconverge resume auth")
    assert told.basins[0].next_attempt == "after you: orchconverge resume auth"
    assert told.basins[0].waits_for.what == "you: orchconverge resume auth"
    assert told.basins[0].last_result == "no_progress (missing login, logout, expiry; 1 graft at the lock since)"
    assert exit_code(story.state, "auth") == 5


def test_conditions_are_in_no_count_of_what_a_decision_brings() -> None:
    changed = Criterion(name="changed", kind="changed")
    story = Story().declare(criteria=(*stories.AUTH, changed), lock="person").start(lock="person").check(met=MET[:2])
    story.begin().ended("auth.1").candidate("auth.1", met=(*MET, "changed"))
    story.judge(met=MET[:2], result="no_progress", text="missing login", decision="WAITING")
    told = shown(story.stop("waiting", "1 candidate waits at the lock")).needs_you[0].sentence
    assert told == f"Decide auth.1 at the lock: 2 of 8 becomes {len(MET)} of 8"


def test_what_was_asked_twice_of_the_target_is_told_once() -> None:
    twice = [
        replace(x, place=place) for place in ("here", "fresh") for x in Story().declare().answers("auth", MET, "t")
    ]
    fact = e.BasinChecked(basin="auth", head="0" * 40, tree="0" * 40, results=tuple(twice))
    assert happened(fact).detail.startswith(f"{len(MET)} of 8 met, ")


def test_what_was_refused_at_its_start_is_not_shown_first() -> None:
    story = tellings.running().declare("senseless").start("senseless").stop("refused", "it holds", basin="senseless")
    story.tell(e.BasinKilled(basin="senseless", reason="it holds"))
    assert shown(story).shown == "auth"
    alone = shown(tellings.refused())
    assert alone.shown == "auth"
    assert alone.basin().waits_for.what == "nothing, refused at the start: everything that is checked holds already"  # type: ignore[union-attr]


def test_a_check_that_cannot_start_is_said_to() -> None:
    story = Story().declare().start()
    answers = [replace(x, met="error", exit=127) for x in story.answers("auth", (), "tip")]
    story.tell(e.BasinChecked(basin="auth", head=stories.sha("tip"), tree=stories.sha("tipt"), results=tuple(answers)))
    assert "  cannot run oauth" in verbose(shown(story))


def test_sentences_fit_the_strip_whatever_the_names() -> None:
    name = "a" * 40
    story = Story().declare(name, lock="person", attempts=1).start(name, attempts=1).check(name).begin(name).wait(60.0)
    story.ended(f"{name}.1").candidate(f"{name}.1", met=MET, flags=("lockfile",)).judge(name)
    for reason in ("limit", "stalled", "unsatisfied", "error", "waiting"):
        if story.basin(name).running is None:
            story.start(name, attempts=1)
        story.stop(reason, "x" * 300, basin=name)
        for need in shown(story).needs_you:
            assert cells(need.sentence) <= 60
            assert need.command.startswith(("orchconverge ", "git diff "))
            assert "…" not in need.command


def test_nothing_needs_a_person_who_asked_for_the_stop() -> None:
    for telling in (tellings.stopped, tellings.running, tellings.killed, tellings.converged, tellings.finalizing):
        assert shown(telling()).needs_you == ()


def test_the_line_holds_no_word_that_a_mind_wrote() -> None:
    story = tellings.parked("consent", "#(rm -rf ~) #[bg=red] $HOME")
    assert line(shown(story)) == "◆1 auth consent 10m"


# --- what is counted -------------------------------------------------------------------------------------------------


def test_active_time_goes_on_only_while_a_controller_is_known_to_work() -> None:
    story = tellings.running()  # ten minutes by the ledger, four minutes since its last line
    basin = story.basin()
    assert basin.active == 600.0
    assert active_seconds(basin, now=story.now, lease=True) == 840.0
    assert active_seconds(basin, now=story.now, lease=True, asleep=100.0) == 740.0
    assert active_seconds(basin, now=story.now, lease=None) == 600.0
    assert active_seconds(basin, now=story.now, lease=False) == 600.0
    assert active_seconds(basin, now=story.now - timedelta(days=1), lease=True) == 600.0
    parked = tellings.parked("quota", "no quota")
    assert active_seconds(parked.basin(), now=parked.now, lease=True) == 600.0
    ended = tellings.stopped()
    assert active_seconds(ended.basin(), now=ended.now + timedelta(days=2), lease=True) == ended.basin().active


def test_time_between_two_runs_is_not_active() -> None:
    story = tellings.stopped().wait(86400.0).start(takes_over=None).wait(10.0)
    assert active_seconds(story.basin(), now=story.now, lease=True) == story.basin().active + 10.0


def test_the_first_limit_is_the_one_that_is_used_most() -> None:
    basin = tellings.seeds_example().basin()
    assert nearest(basin, active=basin.active) == msgspec.structs.replace(
        nearest(basin, active=0.0), kind="time", fraction=0.4611
    )
    assert nearest(basin, active=0.0).kind == "attempts"
    assert nearest(Story().declare(attempts=None, hours=2.0).basin(), active=0.0).kind == "time"


@pytest.mark.parametrize(
    ("gains", "word"),
    [((3, 4), "rising"), ((3, 3, 3), "flat 2"), ((4, 3), "fell"), ((3, 8), "done"), ((), None)],
)
def test_the_trend_is_the_targets(gains: tuple[int, ...], word: str | None) -> None:
    names = [c.name for c in stories.AUTH]
    story, best = Story().declare().start().check(met=names[:2]), 2
    for count in gains:
        story.attempt(met=names[:count], result="partial_success" if count != best else "no_progress")
        best = count
    assert trend(story.basin()).word == word
    assert trend(story.basin()).scores == (2, *gains)


def test_who_met_a_criterion_first_is_the_branch_that_landed() -> None:
    story = tellings.seeds_example()
    by = {c.name: first_met_by(story.state, story.basin(), c) for c in stories.AUTH}
    assert by == {
        "oauth": None,
        "refresh": None,
        "login": "auth.1",
        "logout": "auth.3",
        "expiry": "auth.3",
        "tests": "auth.4",
        "docs": None,
        "malformed": None,
    }


def test_the_lock_is_first_in_first_out_over_all_basins() -> None:
    story = everything()
    lock = shown(story).lock
    assert [(one.branch, one.met, one.adds, one.loses) for one in lock.queue] == [
        ("auth.1", 6, 4, 0),
        ("auth.2", 6, 4, 0),
    ]
    assert lock.target == "auth-branch"
    auto = Story().declare().start().check(met=MET[:2]).begin().wait(9.0).ended("auth.1").candidate("auth.1", met=MET)
    assert shown(auto).lock.queue == ()  # the controller admits it


def test_what_comes_next_is_the_soonest_thing_that_comes_by_itself() -> None:
    story = tellings.running()
    coming = shown(story).next_event
    assert coming.what == "attempt 2 of auth ends at the latest"
    assert coming.at == story.now + timedelta(seconds=1800 - 240)
    assert shown(tellings.limited()).next_event.what is None


def test_details_of_other_basins_can_be_left_out() -> None:
    story = tellings.seeds_example().declare("other")
    whole = project(story.state, probes=Probes(), now=story.now, basin="auth")
    short = project(story.state, probes=Probes(), now=story.now, basin="auth", details=False)
    assert verbose(short) == verbose(whole)
    assert short.basin("other") is not None
    assert short.basin("other").criteria == ()  # type: ignore[union-attr]


def test_every_fact_is_told_in_words() -> None:
    assert set(_WORDS) == set(CASES)
    for fact in tellings.converged().facts:
        told = happened(fact)
        assert told.what
        assert told.seq == fact.seq


# --- the export ------------------------------------------------------------------------------------------------------


def test_the_export_has_the_seeds_shape() -> None:
    story = tellings.seeds_example()
    told = export(story.state, "auth", seq=story.seq)
    assert told["goal"] == "implement complete authentication system"
    assert told["start_time"] == "2026-11-29T13:00:07Z"
    assert (told["current_attempt"], told["max_attempts"]) == (4, 10)
    assert (told["elapsed_hours"], told["max_hours"]) == (1.3833, 3.0)
    assert told["last_result"] == "partial_success"
    assert told["success_criteria"] == {c.name: c.name in MET for c in stories.AUTH}
    assert (told["tmux_session"], told["status"]) == (stories.SESSION, "RUNNING")
    assert (told["basin"], told["seq"]) == ("auth", story.seq)
    first = told["convergence_log"][0]
    assert sorted(first) == words("attempt timestamp result progress decision text strategy approach engine charged")
    assert (first["attempt"], first["timestamp"], first["progress"]) == (1, "2026-11-29T13:00:07Z", 37)


def test_the_export_is_the_fold_whoever_makes_it() -> None:
    story = tellings.converged()
    again = Fold()
    for fact in story.facts:
        again.apply(fact)
    one, other = (export(s, "mfa", seq=story.seq) for s in (story.state, again.state))
    assert msgspec.json.encode(one) == msgspec.json.encode(other)


# --- cost ------------------------------------------------------------------------------------------------------------


def test_what_status_loads_is_light() -> None:
    code = (
        "import sys; import orchconverge.core.projection, orchconverge.core.views.status;"
        "print('\\n'.join({name.partition('.')[0] for name in sys.modules}))"
    )
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    heavy = {
        "pydantic", "pydantic_settings", "libtmux", "git", "apscheduler", "textual", "rich", "platformdirs", "psutil",
        "statistics", "dataclasses", "asyncio", "subprocess", "tomllib", "pathlib", "logging", "hypothesis", "click",
    }  # fmt: skip
    assert not loaded & heavy
