"""Runs the steps of the final chain under the supervisor and reads what they say of themselves."""

from __future__ import annotations

from pathlib import Path

import msgspec

from orchconverge.app.environment import for_steps
from orchconverge.app.world import World, step_name
from orchconverge.core.seen import Ended, Lost, Probe, StepResult
from orchconverge.core.state import Basin, Run
from orchconverge.core.views.text import tail
from orchconverge.ports import Spec

RESULT = "result.json"
DEADLINE = 3600.0
"""Seconds: the minds of a review, those who score it, and then the checks of a forge have their own within it."""


class Steps:
    """The steps of one basin's chain."""

    def __init__(self, world: World, basin: str) -> None:
        self.world = world
        self.basin = basin

    def argv(self, run: Run) -> dict[str, tuple[str, ...]]:
        """The command of each step of the chain."""
        return {step: self.world.step_argv(self.basin, step) for step in run.settings.chain}

    def start(self, basin: Basin, run: Run, number: int, step: str) -> None:
        """Start a step that is recorded as started. One whose supervisor was lost is started again: each looks first."""
        supervisors, name = self.world.supervisors, step_name(basin.id, run.epoch, number, step)
        if isinstance(supervisors.probe(name), Lost):
            supervisors.kill(name)
        result = supervisors.folder(name) / RESULT
        env = for_steps(self.world.host.environment())
        env["ORCHCONVERGE_STEP_RESULT"] = str(result)
        spec = Spec(
            name=name,
            cwd=Path(run.settings.checkout),
            argv=basin.chain.argv,
            env=env,
            deadline_seconds=DEADLINE,
        )
        supervisors.launch(supervisors.prepare(spec))
        self.world.journal.say(f"step {step} of round {number}")

    def probe(self, basin: Basin) -> tuple[Probe | None, StepResult | None]:
        """How the running step stands, and its result once it ended."""
        chain = basin.chain
        if chain.running is None:
            return None, None
        name = step_name(basin.id, _epoch(basin), chain.round, chain.running)
        probe = self.world.supervisors.probe(name)
        return probe, self._result(name, probe) if isinstance(probe, Ended) else None

    def _result(self, name: str, probe: Ended) -> StepResult:
        """What the step wrote, checked; a step that wrote nothing or nonsense failed, and its last output says why."""
        data = self.world.supervisors.get(name, RESULT)
        if data is not None:
            try:
                return msgspec.json.decode(data, type=StepResult)
            except msgspec.MsgspecError as error:
                return StepResult(status="failed", detail=f"its result cannot be read: {error}")
        output = self.world.supervisors.log(name, most_bytes=4096).decode("utf-8", "replace")
        how = probe.exit.reason if probe.exit.reason != "exited" else f"exit {probe.exit.code}"
        return StepResult(status="failed", detail=f"{how}, no result: {tail(output, 300)}")

    def name(self, basin: Basin) -> str | None:
        """The supervised name of the step that runs."""
        chain = basin.chain
        if chain.running is None:
            return None
        return step_name(basin.id, _epoch(basin), chain.round, chain.running)


def _epoch(basin: Basin) -> int:
    return basin.run.epoch if basin.run is not None else 0
