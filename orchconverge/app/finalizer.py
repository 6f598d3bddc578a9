"""The steps of the final chain, each a process of its own: they read the ledger, act once as seen from outside, report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from orchconverge.core.events import AnyFact
from orchconverge.core.seen import StepResult
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Sha, slug
from orchconverge.core.views import pull_request
from orchconverge.core.views.report import report
from orchconverge.errors import Failed, OrchConvergeError, Refused
from orchconverge.files import own_folder, write_inside, write_own
from orchconverge.ports import Git, Ledger


@dataclass(frozen=True, kw_only=True)
class Closing:
    """What a step needs of the outside: far less than a controller, so that it starts fast. ``state`` is our folder."""

    ledger: Ledger
    git: Git
    state: Path


Step = Callable[[Closing, Basin, Run, Sequence[AnyFact]], StepResult]
REPORTS = "docs/convergence-reports"


def pushl(closing: Closing, basin: Basin, run: Run, facts: Sequence[AnyFact]) -> StepResult:
    """Push what was judged to its remote with a fixed refspec, never forced; keep a pull request record and a bundle."""
    git, settings = closing.git, run.settings
    head = git.resolve(f"refs/heads/{basin.target}")
    if head is None:
        return StepResult(status="failed", detail=f"the branch {basin.target} is gone")
    moved = _moved(git, basin, head)
    if moved:
        return StepResult(status="failed", detail=moved, commit=head)
    record = _record(closing, basin, settings.base, head)
    if settings.remote not in git.remotes():
        return StepResult(status="skipped", detail=f"no remote called {settings.remote}; {record}", commit=head)
    if basin.target == git.default_branch(settings.remote):
        detail = f"{basin.target} is the default branch, which is never pushed unasked; {record}"
        return StepResult(status="skipped", detail=detail, commit=head)
    holder = git.checked_out_at(basin.target)
    operation = git.checkout(holder).operation if holder is not None else None
    if operation is not None:
        return StepResult(status="failed", detail=f"a {operation} is in progress on {basin.target}")
    pushed, said = git.push(settings.remote, head, basin.target)
    if not pushed:
        return StepResult(status="failed", detail=f"push to {settings.remote} failed: {said}", commit=head)
    detail = f"{basin.target} at {head:.8} pushed to {settings.remote}; no forge is configured, {record}"
    return StepResult(status="done", detail=detail, commit=head)


def _moved(git: Git, basin: Basin, head: Sha) -> str:
    """Why ``head`` may not be pushed: it is neither what was judged nor that with reports of ours on top. Else empty."""
    judged = basin.tip.head if basin.tip is not None else None
    if judged is None:
        return "nothing was checked yet, and what was not checked is not pushed"
    if head == judged:
        return ""
    work = git.work(judged, head)
    ours = all(commit.subject == _subject(basin) for commit in work.commits)
    if work.descends and ours and all(path.startswith(f"{REPORTS}/") for path in work.changed):
        return ""
    return f"the target moved (was {judged:.8}, is {head:.8}): resume checks it again"


def _subject(basin: Basin) -> str:
    return f"docs: convergence report of {basin.id}"


def _record(closing: Closing, basin: Basin, base: str, head: Sha) -> str:
    """Write the pull request record and the bundle into ``pr/``; says what there is."""
    folder = closing.state / "pr"
    own_folder(folder)
    work = closing.git.work(Sha(base), head)
    document = {
        "basin": basin.id,
        "head": head,
        "branch": basin.target,
        "title": pull_request.title(basin),
        "body": pull_request.body(basin, work),
        "labels": pull_request.labels(basin, work),
    }
    write_own(folder / f"{basin.id}.json", msgspec.json.format(msgspec.json.encode(document)))
    if not work.commits:
        return f"the pull request record is pr/{basin.id}.json"
    try:
        bundle = folder / f"{basin.id}.bundle"
        closing.git.bundle(bundle, Sha(base), basin.target)
        bundle.chmod(0o600)
    except Failed as error:
        return f"the pull request record is pr/{basin.id}.json (no bundle: {error.message})"
    return f"the pull request record is pr/{basin.id}.json, with a bundle beside it"


def unbuilt(what: str) -> Step:
    """A step that this version does not have: skipped, with its reason, and the chain goes on."""

    def skip(closing: Closing, basin: Basin, run: Run, facts: Sequence[AnyFact]) -> StepResult:
        return StepResult(
            status="skipped", detail=f"{what} needs engines that review, which this version does not have"
        )

    return skip


def told(closing: Closing, basin: Basin, *, facts: Sequence[AnyFact], now: datetime) -> str:
    """The report of a basin as it stands, from the ledger and what git says was committed."""
    git, health = closing.git, closing.ledger.health
    head = git.resolve(f"refs/heads/{basin.target}")
    base = Sha(basin.run.settings.base) if basin.run is not None else None
    commits = git.work(base, head).commits if head is not None and base is not None and base != head else ()
    return report(
        closing.ledger.state,
        basin.id,
        now=now,
        seq_from=1,
        seq_to=health.lines,
        bad=health.bad + health.illegal,
        commits=commits,
        facts=facts,
    )


def write_report(closing: Closing, basin: Basin, run: Run, facts: Sequence[AnyFact]) -> StepResult:
    """Write the convergence report: committed alone on the target and pushed, or as a file, or in the state directory."""
    now = basin.active_at or datetime.now(UTC)
    stamp = int((run.started or now).timestamp())
    name = f"{slug(basin.target.replace('/', '-'), longest=80)}-{stamp}.md"
    text = told(closing, basin, facts=facts, now=now)
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
        commit = git.commit_file(basin.target, inside, text, _subject(basin))
    except Refused as refused:
        return StepResult(status="failed", detail=f"{refused.message}: the report was not committed")
    pushed = any(step.name == "pushl" and step.status == "done" for step in basin.chain.done)
    if not pushed:
        return StepResult(status="done", detail="committed, not pushed", path=inside, commit=commit)
    moved = _moved(git, basin, commit)
    if moved:
        return StepResult(status="failed", detail=f"committed, not pushed: {moved}", path=inside, commit=commit)
    went, said = git.push(remote, commit, basin.target)
    detail = f"committed and pushed to {remote}" if went else f"committed; push to {remote} failed: {said}"
    return StepResult(status="done" if went else "failed", detail=detail, path=inside, commit=commit)


STEPS: Mapping[str, Step] = {
    "pushl": pushl,
    "reviewdeep": unbuilt("reviewdeep"),
    "copilot": unbuilt("copilot"),
    "report": write_report,
}


def step(closing: Closing, name: str, basin: str) -> StepResult:
    """Run one step for a basin. Every trouble becomes a failed step that says so: the chain goes on."""
    facts = closing.ledger.catch_up()
    record = closing.ledger.state.basins.get(basin)
    if record is None or record.run is None:
        return StepResult(status="failed", detail=f"{basin} was never run")
    try:
        return STEPS[name](closing, record, record.run, facts)
    except OrchConvergeError as error:
        return StepResult(status="failed", detail=f"{error.message}. {error.hint}" if error.hint else error.message)
    except OSError as error:
        return StepResult(status="failed", detail=f"{error.strerror}: {error.filename}")


def leave_result(path: Path, result: StepResult) -> None:
    """Write the result where the controller looks for it."""
    write_own(path, msgspec.json.encode(result))
