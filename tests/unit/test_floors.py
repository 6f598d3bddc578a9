"""What a mind needs of the machine before it is started: memory, disk, processes, terminals; read off, and waited for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orchconverge.adapters.host import SystemHost
from orchconverge.core import events as e
from orchconverge.core.events import AttemptEnded, BranchSpawned, RunStopped, RunWaiting, RunWoke
from orchconverge.core.places import PIDS_FLOOR, PTYS_FLOOR, lacking
from orchconverge.core.seen import Machine
from orchconverge.core.values import Place
from orchconverge.core.waits import At, waits_for
from tests.fakes.simulation import Simulation
from tests.fakes.story import plain, settings
from tests.stories import Story, sha

ENOUGH = {"memory_free": 2, "disk_free": 2, "pids_free": PIDS_FLOOR, "ptys_free": PTYS_FLOOR}


@pytest.mark.parametrize(
    ("left", "family", "said"),
    [
        ({"memory_free": 0}, "memory", "0 MiB of memory are free, the floor is 0 MiB"),
        ({"disk_free": 0}, "disk", "0 MiB of disk are free, the floor is 0 MiB"),
        ({"pids_free": PIDS_FLOOR - 1}, "memory", "127 more processes can be started, the floor is 128"),
        ({"ptys_free": PTYS_FLOOR - 1}, "memory", "7 more terminals can be opened, the floor is 8"),
    ],
)
def test_what_there_is_too_little_of_is_named_with_its_floor(left: dict[str, int], family: str, said: str) -> None:
    assert lacking(Machine(**ENOUGH), memory_floor=1, disk_floor=1) is None
    assert lacking(Machine(**{**ENOUGH, **left}), memory_floor=1, disk_floor=1) == (family, said)


def test_what_cannot_be_told_stops_nobody() -> None:
    assert lacking(Machine(), memory_floor=1 << 40, disk_floor=1 << 40) is None


# --- how it is read off ----------------------------------------------------------------------------------------------


class Kernel:
    """Files as the kernel shows them, below a folder."""

    def __init__(self, root: Path) -> None:
        self.proc, self.cgroups = root / "proc", root / "cgroup"
        self.host = SystemHost((root,), proc=self.proc, cgroups=self.cgroups)

    def says(self, folder: Path, **files: object) -> None:
        for name, value in files.items():
            path = folder / name.replace("__", "/").replace("_max", ".max").replace("_current", ".current")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    made = Kernel(tmp_path)
    made.says(made.proc, loadavg="0.1 0.2 0.3 2/500 4711", self__cgroup="0::/user/mine")
    made.proc.joinpath("sys/kernel/pty").mkdir(parents=True)
    made.proc.joinpath("sys/kernel/pid_max").write_text("32768\n")
    made.proc.joinpath("sys/kernel/threads-max").write_text("9500\n")
    made.says(made.proc / "sys/kernel/pty", max=4096, nr=70, reserve=1024)
    return made


def test_the_tighter_limit_of_the_kernel_counts(kernel: Kernel) -> None:
    assert kernel.host.look().pids_free == 9000


def test_terminals_that_are_kept_back_are_not_free(kernel: Kernel) -> None:
    assert kernel.host.look().ptys_free == 4096 - 1024 - 70


def test_a_cgroup_of_ours_or_one_above_it_can_be_tighter(kernel: Kernel) -> None:
    kernel.says(kernel.cgroups / "user/mine", pids_max="max", pids_current=3)
    assert kernel.host.look().pids_free == 9000
    kernel.says(kernel.cgroups / "user", pids_max=400, pids_current=310)
    assert kernel.host.look().pids_free == 90


def test_a_cgroup_of_version_1_is_read_too(kernel: Kernel) -> None:
    kernel.says(kernel.proc, self__cgroup="9:name=systemd:/\n8:pids:/box\n4:memory:/elsewhere")
    kernel.says(kernel.cgroups / "pids/box", pids_max=64, pids_current=60)
    kernel.says(kernel.cgroups / "memory/elsewhere", pids_max=1, pids_current=1)
    assert kernel.host.look().pids_free == 4


def test_a_cgroup_outside_of_what_the_container_is_shown_is_left_out(kernel: Kernel) -> None:
    kernel.says(kernel.proc, self__cgroup="0::/../../host")
    kernel.says(kernel.cgroups / "../../host", pids_max=5, pids_current=5)
    assert kernel.host.look().pids_free == 9000


def test_over_a_limit_is_nothing_left_not_less(kernel: Kernel) -> None:
    kernel.says(kernel.cgroups / "user/mine", pids_max=10, pids_current=12)
    kernel.says(kernel.proc / "sys/kernel/pty", nr=4000)
    assert (kernel.host.look().pids_free, kernel.host.look().ptys_free) == (0, 0)


def test_a_kernel_that_shows_nothing_tells_nothing(tmp_path: Path) -> None:
    seen = SystemHost((tmp_path,), proc=tmp_path / "none", cgroups=tmp_path / "none").look()
    assert (seen.pids_free, seen.ptys_free) == (None, None)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of this system shows it elsewhere")
def test_this_machine_can_be_read(tmp_path: Path) -> None:
    seen = SystemHost((tmp_path,)).look()
    assert seen.pids_free is not None
    assert seen.ptys_free is not None
    assert seen.pids_free < int(Path("/proc/sys/kernel/pid_max").read_text())


# --- what the loop does about it -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weather", "said"), [("pids low", "100 more processes"), ("ptys low", "2 more terminals")])
def test_a_run_waits_for_room_and_goes_on_by_itself(weather: str, said: str) -> None:
    done = Simulation(plain("here", weather=((0.0, weather),))).run()
    waited = done.facts(RunWaiting)[0]
    assert (waited.reason, waited.text.startswith(said)) == ("memory", True)
    assert len(done.facts(RunWoke)) == len(done.facts(RunWaiting))
    assert done.facts(RunStopped)[-1].reason == "converged"


def test_a_wave_runs_with_the_minds_there_is_room_for_and_the_rest_follow() -> None:
    story = plain("fresh", minds=("gain", "gain", "gain"), settings=settings("fresh", minds=3, maxMinds=2))
    done = Simulation(story).run()
    assert done.machine.peak["minds"] == 2
    first = [fact for fact in done.facts(BranchSpawned) if fact.seq < done.facts(AttemptEnded)[0].seq]
    assert len(first) == 3, "fewer at once, and none left out"
    assert not done.facts(RunWaiting)


def test_status_says_that_a_wave_is_smaller_than_it_is_meant_to_be() -> None:
    story = Story().declare().start().check()
    story.tell(e.AttemptStarted(basin="auth", attempt=1, strategy="wider", why="w", engine="claude", width=3))
    story.tell(e.BasinOpened(basin="auth", wave=1))
    spawn(story, 1)
    assert waits(story) == "wave of 3 ends, 2 of it wait for room, <= 1h"
    spawn(story, 2)
    assert waits(story) == "wave of 3 ends, 1 of it waits for room, <= 1h"
    spawn(story, 3)
    assert waits(story) == "wave of 3 ends, <= 1h"


def spawn(story: Story, number: int) -> None:
    place: Place = "fresh"
    story.tell(
        e.BranchSpawned(
            basin="auth",
            branch=f"auth.{number}",
            approach="a",
            gitBranch=f"m-{number}",
            worktree=f"/trees/m-{number}",
            base=sha("b"),
            engine="claude",
            place=place,
        )
    )


def waits(story: Story) -> str:
    at = At(active=0.0, now=story.now, lease=True, silent=None)
    return waits_for(story.state, story.basin(), at, phase="RUNNING").what
