"""What people see of each way that a pursuit can stand, word for word. ``ORCHCONVERGE_GOLDEN=write`` writes it anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from orchconverge.core.projection import Damage, Probes, Projection, project
from orchconverge.core.views.report import report
from orchconverge.core.views.status import block, line, nothing, verbose
from tests import stories, tellings
from tests.stories import Story

HERE = Path(__file__).parent
SEED = """\
Goal: "implement complete authentication system"
Status: RUNNING (attempt 4/10)
Elapsed: 1h 23m / 3h 00m
Progress: 75% success criteria met
Last Result: partial_success (fixed tests, missing docs)
Tmux Session: convergence-auth-branch-1692441600
Next Attempt: 2m 37s"""

Telling = Callable[[], Story]
HELD = Probes(
    leases={"auth": True, "mfa": True},
    tmux={"auth": True, "mfa": True},
    minds={"auth": 1},
    silent={"auth": 2.0, "mfa": 2.0},
)
GONE = Probes(leases={"auth": False}, tmux={"auth": False}, minds={"auth": 1}, silent={"auth": 371.0})
SILENT = Probes(silent={"auth": 371.0})
FREE = Probes(leases={"auth": False, "mfa": False}, tmux={"auth": False, "mfa": False}, minds={"auth": 0, "mfa": 0})

TOLD: dict[str, tuple[Telling, Probes]] = {
    "the example of the seed": (tellings.seeds_example, HELD),
    "declared": (lambda: Story().declare(), FREE),
    "before the start check": (lambda: Story().declare().start(), HELD),
    "an attempt runs": (tellings.running, HELD),
    "a wave runs": (lambda: tellings.running(minds=3), HELD),
    "the last attempt runs": (lambda: Story().declare(attempts=1).start(attempts=1).check().begin(), HELD),
    "in the foreground": (lambda: Story().declare().start(tmux="").check().begin(), HELD),
    "the controller is gone": (tellings.running, GONE),
    "nothing answers": (tellings.running, SILENT),
    "at the lock": (tellings.at_lock, FREE),
    "at the lock, flagged": (lambda: tellings.at_lock(flagged=True), FREE),
    "no quota": (lambda: tellings.parked("quota", "claude has no quota until 15:40 UTC", minutes=30), HELD),
    "no disk": (lambda: tellings.parked("disk", "12 MiB of disk are free, the floor is 1024 MiB"), HELD),
    "on another branch": (lambda: tellings.parked("branch", "the checkout is on main: git switch auth-branch"), HELD),
    "hooks changed": (lambda: tellings.parked("tamper", "git's configuration, hooks or attributes changed"), HELD),
    "needs consent": (lambda: tellings.parked("consent", "./check.sh came with the repository, 0a1b2c3d4e5f"), HELD),
    "a limit": (tellings.limited, FREE),
    "stalled": (tellings.stalled, FREE),
    "a verdict": (tellings.blocked, FREE),
    "stopped": (tellings.stopped, FREE),
    "refused": (tellings.refused, FREE),
    "killed": (tellings.killed, FREE),
    "the final steps": (tellings.finalizing, HELD),
    "converged, the last step runs": (tellings.converged, HELD),
    "converged": (lambda: tellings.converged().stop("converged", basin="mfa"), FREE),
}


def shown(name: str) -> Projection:
    """The projection of one telling, at its own end."""
    telling, probes = TOLD[name]
    story = telling()
    health = Damage(lines=story.seq)
    whole = Probes(
        leases=probes.leases,
        tmux=probes.tmux,
        minds=probes.minds,
        silent=probes.silent,
        attach={"auth": "tmux -S /run/user/7/orchconverge -f /dev/null attach -t =convergence-auth-branch-1692441600"},
        ledger=health,
        seq=story.seq,
        newest=story.facts[-1].at,
    )
    return project(story.state, probes=whole, now=story.now, recent=story.facts)


def same(name: str, text: str) -> None:
    """Compare with the golden file, byte for byte."""
    path = HERE / name
    if os.environ.get("ORCHCONVERGE_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_the_block_is_the_seeds_line_for_line() -> None:
    assert block(shown("the example of the seed")) == SEED


def test_every_way_to_stand_has_its_block_and_its_line() -> None:
    parts = [
        f"## {name}\n{block(shown(name))}\n[{line(shown(name))}] [{line(shown(name), ascii=True)}]\n" for name in TOLD
    ]
    same("status-blocks.txt", "\n".join(parts))


@pytest.mark.parametrize("name", ["the example of the seed", "at the lock, flagged", "the controller is gone"])
def test_the_long_form_says_what_needs_a_person_first(name: str) -> None:
    file = f"status-verbose-{name.replace(' ', '-').replace(',', '')}.txt"
    text = verbose(shown(name))
    assert text.startswith(block(shown(name)) + "\n\nNeeds You: ")
    same(file, text + "\n")


def test_where_there_is_nothing_the_way_to_begin_is_said() -> None:
    empty = project(Story().state, probes=Probes(), now=stories.START)
    assert block(empty) == verbose(empty) == nothing()
    assert 'Start one: orchconverge "' in nothing()
    assert line(empty) == ""


def test_other_open_basins_are_counted_below_the_block() -> None:
    story = Story().declare("one").declare("two").declare("three").declare("auth")
    text = block(project(story.state, probes=Probes(), now=story.now))
    assert text.splitlines()[7:] == ["3 more: orchconverge status NAME, with one, two, three"]
    two = Story().declare("one").declare("auth")
    assert block(project(story.state, probes=Probes(), now=story.now, basin="one")).startswith("Goal:")
    assert block(project(two.state, probes=Probes(), now=two.now)).splitlines()[7:] == [
        "1 more: orchconverge status one"
    ]


def test_a_damaged_ledger_is_one_line_below_the_block() -> None:
    story = Story().declare()
    damaged = Probes(ledger=Damage(lines=90, bad=1, illegal=1))
    text = block(project(story.state, probes=damaged, now=story.now))
    assert text.splitlines()[7:] == [
        "2 of 90 lines are damaged or against the rules, and skipped. orchconverge ledger verify"
    ]


def test_times_of_day_are_the_readers() -> None:
    story = tellings.parked("quota", "no quota", minutes=30)
    east = story.now.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert "Next Attempt: after quota, 20:10" in block(project(story.state, probes=HELD, now=east))


def test_the_block_can_be_said_in_ascii() -> None:
    story = Story().declare(goal="größer " * 80).start()
    text = block(project(story.state, probes=HELD, now=story.now), ascii=True)
    assert text.isascii()
    assert '.."' in text


def test_a_report_of_a_whole_run_reads_as_it_always_did() -> None:
    story = tellings.converged()
    same(
        "report.md",
        report(story.state, "mfa", now=story.now, seq_from=1, seq_to=story.seq, bad=0, facts=story.facts),
    )
