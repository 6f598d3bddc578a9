"""Starts minds, and reads what they left: brief out, output and report in, uncommitted work kept."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from orchconverge.app.environment import allowed
from orchconverge.app.trees import Trees
from orchconverge.app.world import World, marker, mind_name
from orchconverge.core.brief import brief
from orchconverge.core.seen import Commit, MindEnd
from orchconverge.core.state import Basin, Branch, Run, State
from orchconverge.core.target import Sha
from orchconverge.core.values import Settings
from orchconverge.errors import OrchConvergeError
from orchconverge.ports import Brief, Checkout, Launch, Outcome, SessionExists, Spec

MOST_LOG = 64 << 20
MOST_REPORT = 64 << 10
UNREAD_AT_MOST = 3
OWN = "mind"
"""The part of a mind's folder that it is told of and may write into; what we keep of it lies outside."""
BEFORE = "before"
"""The file of a mind's folder with the paths that were uncommitted when it began, NUL between them."""


class Minds:
    """The minds of one basin."""

    def __init__(self, world: World, trees: Trees) -> None:
        self.world = world
        self.trees = trees
        self.sessions: dict[str, str] = {}
        self.unread: dict[Path, int] = {}

    def start(self, state: State, basin: Basin, run: Run, branch: Branch, *, active: float) -> str:
        """Start a mind that is recorded as spawned. Returns what is still awaited first, or an empty string.

        Safe to call again: worktree, spec and session are found by names made from the ledger, and of two supervisors
        of one name only the first gets its lock.
        """
        here = branch.place == "here"
        if not here:
            awaited = self.trees.for_mind(branch, setup=run.settings.setup)
            if awaited:
                return awaited
        supervisors, name = self.world.supervisors, mind_name(branch.id)
        folder = supervisors.folder(name)
        report_path = supervisors.subfolder(name, OWN) / "report.json"
        if supervisors.get(name, BEFORE) is None:
            before = self.world.git.checkout(Path(branch.worktree))
            paths = "\0".join((*before.dirty, *before.untracked))
            supervisors.put(name, BEFORE, paths.encode("utf-8", "surrogateescape"))
        text = brief(state, basin, branch, report_path=str(report_path), theirs=self._theirs(state, branch))
        text_path = supervisors.put(name, "brief.md", text.encode("utf-8", "surrogateescape"))
        context, resume = self._context(state, basin, branch)
        engine = self.world.engines[branch.engine]
        prepared = Brief(
            text=text,
            text_path=text_path,
            report_path=report_path,
            folder=folder,
            cwd=Path(branch.worktree),
            branch=branch.id,
            attempt=branch.attempt,
            approach=branch.approach,
            model=branch.model,
            context=context,
            resume=resume,
        )
        launch = engine.launch(prepared, _granting(run, basin))
        spec = Spec(
            name=name,
            cwd=prepared.cwd,
            argv=launch.argv,
            env=self._environment(branch, engine.variables, launch, prepared),
            stdin=text_path if launch.brief_on_stdin else None,
            branch=branch.git_branch,
            deadline_seconds=_left(basin, active),
            linger_seconds=launch.linger_seconds,
        )
        self._open(branch, run, supervisors.prepare(spec))
        return ""

    def _open(self, branch: Branch, run: Run, argv: tuple[str, ...]) -> None:
        """Open the mind's tmux session; a name that is taken gets the run's random id, and if that is taken, it is ours."""
        plain = f"mind-{branch.id.replace('.', '-')}"
        for name in (plain, f"{plain}-{run.id[:8]}"):
            try:
                pane = self.world.panes.open(name, argv)
            except SessionExists:
                continue
            self.sessions[branch.id] = pane.name
            self.world.supervisors.put(mind_name(branch.id), "session", pane.name.encode())
            return

    def session(self, branch: str) -> str:
        """The tmux session a mind was started in, if that is known."""
        if branch not in self.sessions:
            found = self.world.supervisors.get(mind_name(branch), "session", most_bytes=200)
            self.sessions[branch] = (found or b"").decode("utf-8", "replace")
        return self.sessions[branch]

    def _context(self, state: State, basin: Basin, branch: Branch) -> tuple[str | None, bool]:
        """The engine context to use, and whether it is continued: only one that an ended mind was seen to use."""
        session = state.sessions.get(basin.session or "")
        known = session.contexts.get(branch.engine) if session is not None else None
        if known is None or branch.place != "here":
            return None, False
        return known.id, known.shown

    def _environment(
        self, branch: Branch, variables: tuple[str, ...], launch: Launch, prepared: Brief
    ) -> Mapping[str, str]:
        return {
            **allowed(self.world.host.environment(), also=(*variables, *self.world.allowed)),
            **launch.env,
            "ORCHCONVERGE_BRIEF": str(prepared.text_path),
            "ORCHCONVERGE_REPORT": str(prepared.report_path),
            "GIT_REFLOG_ACTION": marker(branch.id),
            "TMUX_TMPDIR": str(prepared.report_path.parent),  # 0700 and its own: a mind's tmux never meets ours
        }

    def read(self, state: State, branch: Branch) -> MindEnd:
        """What an ended mind left. What it did not commit is kept on a ref; its commits are kept on another."""
        name, git = mind_name(branch.id), self.world.git
        outcome = self._outcome(state, branch, name)
        data = self.world.supervisors.get(name, f"{OWN}/report.json", most_bytes=MOST_REPORT + 1)
        report = self.world.read_report(data or b"")
        here, path = branch.place == "here", Path(branch.worktree)
        checkout = self._checkout(path)
        head = git.resolve(f"refs/heads/{branch.git_branch}") or branch.base
        if not here and checkout is not None and checkout.head is not None:
            head = checkout.head
        git.keep(branch.id, head)
        if here and checkout is not None and checkout.branch is None and checkout.head not in (None, head):
            git.keep(f"{branch.id}-detached", checkout.head)
        leftovers = self._leftovers(name, checkout)
        if leftovers:
            git.snapshot(path, f"{branch.id}-leftovers")
        nested = [left for left in leftovers if left.endswith("/")]
        if nested:
            self.world.journal.say(f"{branch.id} left repositories of its own in {path}: {', '.join(nested[:5])}")
        strangers = self._strangers(branch, head) if here else ()
        stands = checkout is not None and (checkout.branch, checkout.head, checkout.dirty) == (
            branch.git_branch,
            head,
            (),
        )
        return MindEnd(
            outcome=outcome,
            report=report,
            head=head,
            stands=stands,
            leftovers=tuple(left for left in leftovers if left not in nested),
            strangers=strangers,
            theirs=self._theirs(state, branch),
        )

    def _checkout(self, path: Path) -> Checkout | None:
        """How a mind's tree stands. Asked again if git fails, but a tree that a mind broke does not hold up the run."""
        try:
            return self.world.git.checkout(path)
        except (OrchConvergeError, OSError):
            self.unread[path] = self.unread.get(path, 0) + 1
            if path.is_dir() and self.unread[path] < UNREAD_AT_MOST:
                raise
            return None

    def _outcome(self, state: State, branch: Branch, name: str) -> Outcome:
        """The engine's outcome, its cost without what the same context had cost before.

        Claude's total goes on over a resumed context, unless it did not find the old one's: a total that is not above what
        was spent before is this mind's own.
        """
        outcome = self.world.engines[branch.engine].read(self.world.supervisors.log(name, most_bytes=MOST_LOG))
        basin = state.basins[branch.basin]
        session = state.sessions.get(basin.session or "")
        context = session.contexts.get(branch.engine) if session is not None else None
        if outcome.usage is None or outcome.usage.usd is None or context is None or branch.place != "here":
            return outcome
        spent = sum(
            (other.usage.usd or 0.0)
            for other in state.branches_of(branch.basin)
            if other.usage is not None
            and other.engine == branch.engine
            and context.attempt <= other.attempt < branch.attempt
        )
        if outcome.usage.usd <= spent:
            return outcome
        return replace(outcome, usage=replace(outcome.usage, usd=outcome.usage.usd - spent))

    def _leftovers(self, name: str, checkout: Checkout | None) -> tuple[str, ...]:
        """What is uncommitted now and was not before the mind began."""
        if checkout is None:
            return ()
        known = set(self._before(name))
        return tuple(p for p in (*checkout.dirty, *checkout.untracked) if p not in known)

    def _theirs(self, state: State, branch: Branch) -> tuple[str, ...]:
        """What is a person's of the uncommitted: it lay here before the first mind of the pursuit, so no mind left it."""
        if branch.place != "here":
            return ()
        first = next(b for b in state.branches_of(branch.basin) if b.place == "here")
        now = set(self._before(mind_name(branch.id)))
        return tuple(path for path in self._before(mind_name(first.id)) if path in now)

    def _before(self, name: str) -> list[str]:
        """The paths that were uncommitted when a mind began."""
        data = self.world.supervisors.get(name, BEFORE, most_bytes=MOST_LOG) or b""
        return data.decode("utf-8", "surrogateescape").split("\0") if data else []

    def _strangers(self, branch: Branch, head: Sha) -> tuple[Commit, ...]:
        """Commits that came onto the target meanwhile and were made by no mind, by the mark in the reflog."""
        if head == branch.base:
            return ()
        foreign = self.world.git.unmarked(branch.git_branch, marker(branch.id), since=branch.base)
        if not foreign:
            return ()
        return tuple(c for c in self.world.git.work(branch.base, head).commits if c.sha in foreign)


def _granting(run: Run, basin: Basin) -> Settings:
    """The run's settings, with the criteria's own commands allowed to the engine."""
    commands = tuple(c.command for c in basin.criteria if c.command and _plain(c.command))
    return replace(run.settings, allow=tuple(dict.fromkeys((*run.settings.allow, *commands))))


def _plain(command: str) -> bool:
    """Whether a command line is one plain command, without the shell's own characters."""
    try:
        return bool(shlex.split(command)) and not set(command) & set("|&;<>()$`\\\n*?[]#~{}!")
    except ValueError:
        return False


def _left(basin: Basin, active: float) -> float:
    """Seconds that the attempt's deadline leaves, after what setting up and starting took; ``active`` is the time now."""
    assert basin.attempt is not None
    return max(1.0, basin.attempt.deadline - max(0.0, active - basin.attempt.active))
