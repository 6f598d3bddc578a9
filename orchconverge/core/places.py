"""Whether the target stands where it can be worked on, or moved."""

from __future__ import annotations

from orchconverge.core.seen import Machine, Seen, TargetSeen
from orchconverge.core.state import Basin, Run
from orchconverge.core.strategy import place
from orchconverge.core.values import WaitFor

PIDS_FLOOR = 128
"""No mind is started where fewer processes can be: an agent's threads and tools are some dozens, and each counts as one."""
PTYS_FLOOR = 8
"""Nor where fewer terminals can be opened: its pane takes one, its tools may take more."""


def misplaced(basin: Basin, run: Run, target: TargetSeen, *, landing: bool = False) -> str | None:
    """Why the target cannot be worked on as it stands, or be moved (``landing``), in a sentence; ``None`` if it can."""
    if target.head is None:
        return f"the branch {basin.target} is gone"
    if target.trespass:
        return target.trespass
    checkout = target.checkout
    here = place(basin, run) == "here"
    if checkout is None or not (here or landing):
        return None
    if checkout.operation is not None:
        return f"a {checkout.operation} is in progress on {basin.target}: finish it first"
    if here and checkout.branch != basin.target:
        other = checkout.branch or "a detached HEAD"
        return f"the checkout is on {other}, the run works on {basin.target}: git switch {basin.target}"
    if not here and checkout.dirty:
        return f"{basin.target} is checked out with changes in {len(checkout.dirty)} files: commit them first"
    return None


def short_of(seen: Seen, run: Run) -> tuple[WaitFor, str] | None:
    """What there is too little of to start another mind, if anything, in a sentence."""
    low = lacking(seen.machine, memory_floor=seen.memory_floor, disk_floor=seen.disk_floor)
    if low is not None:
        return low
    if seen.minds >= run.settings.maxMinds:
        return "limit", f"{seen.minds} minds run in this repository, as many as max_minds lets run at once"
    return None


def lacking(machine: Machine, *, memory_floor: int, disk_floor: int) -> tuple[WaitFor, str] | None:
    """What the machine has too little of for another mind, in a sentence; it comes back by itself. Floors in bytes."""
    disk, memory = machine.disk_free, machine.memory_free
    if disk is not None and disk < disk_floor:
        return "disk", f"{disk >> 20} MiB of disk are free, the floor is {disk_floor >> 20} MiB"
    if memory is not None and memory < memory_floor:
        return "memory", f"{memory >> 20} MiB of memory are free, the floor is {memory_floor >> 20} MiB"
    if machine.pids_free is not None and machine.pids_free < PIDS_FLOOR:
        return "memory", f"{machine.pids_free} more processes can be started, the floor is {PIDS_FLOOR}"
    if machine.ptys_free is not None and machine.ptys_free < PTYS_FLOOR:
        return "memory", f"{machine.ptys_free} more terminals can be opened, the floor is {PTYS_FLOOR}"
    return None
