"""The steps of the final chain, each a process of its own: they read the ledger, act once as seen from outside, report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from orchconverge.app.closing import REPORTS, Closing, moved, report_subject
from orchconverge.app.copilot import copilot
from orchconverge.app.forge_criteria import answered
from orchconverge.app.pushl import pushl
from orchconverge.app.replaced import replaced
from orchconverge.app.reviewdeep import reviewdeep
from orchconverge.core.events import AnyFact
from orchconverge.core.report_record import PullReported, Report
from orchconverge.core.reporting import reported
from orchconverge.core.seen import StepResult
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Sha, slug
from orchconverge.core.views.report import markdown
from orchconverge.errors import OrchConvergeError, Refused
from orchconverge.files import own_folder, write_inside, write_own

Step = Callable[[Closing, Basin, Run, Sequence[AnyFact]], StepResult]


def told(
    closing: Closing, basin: Basin, *, facts: Sequence[AnyFact], now: datetime, pull: PullReported | None = None
) -> Report:
    """The report of a basin as it stands, from the ledger and what git says was committed; ``pull`` is the forge's word."""
    git, health = closing.git, closing.ledger.health
    head = git.resolve(f"refs/heads/{basin.target}")
    base = Sha(basin.run.settings.base) if basin.run is not None else None
    known = base is not None and git.resolve(base) is not None  # what nothing leads to is not kept for ever
    commits = git.work(base, head).commits if head is not None and base is not None and known and base != head else ()
    return reported(
        closing.ledger.state,
        basin.id,
        now=now,
        seq_from=1,
        seq_to=health.lines,
        bad=health.bad + health.illegal,
        commits=commits[::-1],
        facts=facts,
        pull=pull,
    )


def _as_it_stands(closing: Closing, basin: Basin, run: Run) -> PullReported | None:
    """The pull request that a step of the chain named, as the forge has it now; ``None`` if that cannot be told."""
    if not any(step.name == "pushl" and step.url is not None for step in basin.chain.done):
        return None
    with suppress(OrchConvergeError, OSError):
        forge = closing.forge(basin, run)
        pull = forge.find(basin.target)
        if pull is not None and pull.url:
            counts = Counter(check.state for check in (forge.checks(pull.head) if pull.head is not None else ()))
            return PullReported(
                number=pull.number,
                url=pull.url,
                state=pull.state,
                draft=pull.draft,
                passed=counts["passed"],
                failed=counts["failed"],
                pending=counts["pending"],
            )
    return None


def write_report(closing: Closing, basin: Basin, run: Run, facts: Sequence[AnyFact]) -> StepResult:
    """Write the convergence report: committed alone on the target and pushed, or as a file, or in the state directory."""
    now = basin.active_at or datetime.now(UTC)
    stamp = int((run.started or now).timestamp())
    name = f"{slug(basin.target.replace('/', '-'), longest=80)}-{stamp}.md"
    text = markdown(told(closing, basin, facts=facts, now=now, pull=_as_it_stands(closing, basin, run)))
    if run.settings.report == "state":
        path = closing.state / "reports" / name
        own_folder(path.parent)
        write_own(path, text.encode())
        return StepResult(status="done", detail="kept in the state directory", path=str(path))
    inside = f"{REPORTS}/{name}"
    if run.settings.report == "file":
        write_inside(Path(run.settings.checkout), inside, text.encode())
        return StepResult(status="done", detail="written, not committed", path=inside)
    return _commit_report(closing, basin, run, inside, text)


def _commit_report(closing: Closing, basin: Basin, run: Run, inside: str, text: str) -> StepResult:
    git, remote = closing.git, run.settings.remote
    try:
        commit = git.commit_file(basin.target, inside, text, report_subject(basin))
    except Refused as refused:
        return StepResult(status="failed", detail=f"{refused.message}: the report was not committed")
    pushed = any(step.name == "pushl" and step.status == "done" for step in basin.chain.done)
    if not pushed:
        return StepResult(status="done", detail="committed, not pushed", path=inside, commit=commit)
    why = moved(git, basin, commit)
    if why:
        return StepResult(status="failed", detail=f"committed, not pushed: {why}", path=inside, commit=commit)
    went, said = git.push(remote, commit, basin.target)
    detail = f"committed and pushed to {remote}" if went else f"committed; push to {remote} failed: {said}"
    return StepResult(status="done" if went else "failed", detail=detail, path=inside, commit=commit)


STEPS: Mapping[str, Step] = {
    "pushl": pushl,
    "reviewdeep": reviewdeep,
    "copilot": copilot,
    "report": write_report,
}


def step(closing: Closing, name: str, basin: str, *, act: Step | None = None) -> StepResult:
    """Run one step for a basin, or ``act`` in its place. Every trouble becomes a failed step that says so: the chain goes on."""
    facts = closing.ledger.catch_up()
    record = closing.ledger.state.basins.get(basin)
    if record is None or record.run is None:
        return StepResult(status="failed", detail=f"{basin} was never run")
    try:
        return (act or STEPS[name])(closing, record, record.run, facts)
    except OrchConvergeError as error:
        return StepResult(status="failed", detail=f"{error.message}. {error.hint}" if error.hint else error.message)
    except OSError as error:
        return StepResult(status="failed", detail=f"{error.strerror}: {error.filename}")


def in_chain(closing: Closing, name: str, basin: str, *, act: Step | None = None) -> StepResult:
    """Run one step of a chain, or what stands in its place: a person's own command, else ``act``.

    After it is asked what only the forge knows.
    """
    result = step(closing, name, basin, act=partial(_chosen, name, act or STEPS[name]))
    record = closing.ledger.state.basins.get(basin)
    if record is None or record.run is None:
        return result
    try:
        return answered(closing, record, record.run, name, result)
    except (OrchConvergeError, OSError) as error:
        return replace(result, detail=f"{result.detail}; the forge was not asked: {error}")


def _chosen(name: str, ours: Step, closing: Closing, basin: Basin, run: Run, facts: Sequence[AnyFact]) -> StepResult:
    return replaced(closing, basin, run, name) if name in run.settings.replaced else ours(closing, basin, run, facts)


def leave_result(path: Path, result: StepResult) -> None:
    """Write the result where the controller looks for it."""
    write_own(path, msgspec.json.encode(result))
