"""Starts minds, and reads what they left: brief out, output and report in, uncommitted work kept."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from orchconverge.app.admission import Admissions, share_of
from orchconverge.app.environment import allowed, in_worktree
from orchconverge.app.trees import Trees
from orchconverge.app.world import OWN, REPORT, World, given_name, marker, mind_name
from orchconverge.core.brief import brief
from orchconverge.core.seen import Commit, MindEnd, Running, Starting, Unknown
from orchconverge.core.state import Basin, Branch, Run, State
from orchconverge.core.target import Sha
from orchconverge.core.values import Settings
from orchconverge.errors import Failed, OrchConvergeError
from orchconverge.ports import Brief, Checkout, Launch, Outcome, SessionExists, Spec

MOST_LOG = 64 << 20
MOST_REPORT = 64 << 10
LONGEST_SUBJECT = 72
UNREAD_AT_MOST = 3
BEFORE = "before"
"""The file of a mind's folder with the paths that were uncommitted when it began, NUL between them."""


class Minds:
    """The minds of one basin."""

    def __init__(self, world: World, trees: Trees, admission: Admissions) -> None:
        self.world = world
        self.trees = trees
        self.admission = admission
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
        given = given_name(branch)
        folder = supervisors.folder(given)
        report_path = supervisors.subfolder(given, OWN).parent / REPORT
        if supervisors.get(name, BEFORE) is None:
            before = self.world.git.checkout(Path(branch.worktree))
            paths = "\0".join((*before.dirty, *before.untracked))
            supervisors.put(name, BEFORE, paths.encode("utf-8", "surrogateescape"))
        text = brief(state, basin, branch, report_path=str(report_path), theirs=self._theirs(state, branch))
        text_path = supervisors.put(given, "brief.md", text.encode("utf-8", "surrogateescape"))
        context, resume = self._context(state, basin, branch)
        engine = self.world.engines[branch.engine]
        place = self.admission.place(branch)
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
            usd=share_of(basin, run).usd,
            hook=self.world.hook if place is not None else (),
        )
        launch = engine.launch(prepared, granting(run, basin))
        self.admission.begin(basin, run, branch, place, launch.asks, fresh=not resume)
        asking = place.environment if place is not None and launch.asks else {}
        for file, content in launch.files.items():
            supervisors.put(given, file, content.encode("utf-8", "replace"))
        spec = Spec(
            name=name,
            cwd=prepared.cwd,
            argv=launch.argv,
            env={**self._environment(branch, engine.variables, launch, prepared), **asking},
            stdin=text_path if launch.brief_on_stdin else None,
            branch=branch.git_branch,
            deadline_seconds=_left(basin, run, branch, active),
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

    def running(self, state: State) -> int:
        """How many minds run in all basins. One whose controller is gone counts only while its process is seen to live."""
        count = 0
        for basin in state.basins.values():
            attempt = basin.attempt
            names = [name for name in attempt.branches if state.branches[name].may_run] if attempt is not None else []
            if names and basin.id != self.trees.basin and self.world.leases.held(f"lease/{basin.id}") is False:
                probe = self.world.supervisors.probe
                names = [n for n in names if isinstance(probe(mind_name(n)), Running | Starting | Unknown)]
            count += len(names)
        return count

    def seen_to_run(self, state: State) -> int:
        """How many minds of all basins are seen to live."""
        attempts = [basin.attempt for basin in state.basins.values() if basin.attempt is not None]
        names = [mind_name(name) for attempt in attempts for name in attempt.branches if state.branches[name].may_run]
        return sum(isinstance(self.world.supervisors.probe(name), Running | Starting | Unknown) for name in names)

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
            **(self.world.git.author() if launch.identity else {}),
            **allowed(self.world.host.environment(), also=(*variables, *self.world.allowed)),
            **launch.env,
            "ORCHCONVERGE_BRIEF": str(prepared.text_path),
            "ORCHCONVERGE_REPORT": str(prepared.report_path),
            **(in_worktree(branch.id, where=str(self.world.git.common_dir)) if branch.place == "fresh" else {}),
            "GIT_REFLOG_ACTION": marker(branch.id),
            "TMUX_TMPDIR": str(prepared.report_path.parent),  # 0700 and its own: a mind's tmux never meets ours
        }

    def read(self, state: State, branch: Branch) -> MindEnd:
        """What an ended mind left. What it did not commit is kept on a ref; its commits are kept on another."""
        name, git = mind_name(branch.id), self.world.git
        outcome = self._outcome(state, branch, name)
        data = self.world.supervisors.get(given_name(branch), REPORT, most_bytes=MOST_REPORT + 1)
        report = self.world.read_report(data or b"")
        here, path = branch.place == "here", Path(branch.worktree)
        checkout = self._checkout(path)
        if self._committed(branch, checkout, report.summary or outcome.summary):
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
            calls=self.admission.ended(branch, outcome),
        )

    def _committed(self, branch: Branch, checkout: Checkout | None, summary: str) -> bool:
        """Commit what a mind left whose engine cannot, where it left it. What lay there before it began is not its work."""
        if self.world.engines[branch.engine].commits or checkout is None:
            return False
        if checkout.branch != branch.git_branch and (branch.place == "here" or checkout.branch is not None):
            return False
        said = next(filter(None, (" ".join(line.split()) for line in summary.splitlines())), "")
        subject = said[:LONGEST_SUBJECT] or f"{branch.basin}: what was left uncommitted"
        message = f"{subject}\n\nCommitted by orchconverge: {branch.engine} cannot commit where it works.\n"
        before = self._before(mind_name(branch.id))
        try:
            made = self.world.git.commit_all(Path(branch.worktree), message, marker=marker(branch.id), without=before)
        except OrchConvergeError as error:
            self.world.journal.say(f"what {branch.id} left could not be committed for it: {error.message}")
            return False
        if made is not None:
            self.world.journal.say(f"what {branch.id} left was committed for it: {made:.8}")
        return made is not None

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


def granting(run: Run, basin: Basin) -> Settings:
    """The run's settings, with the criteria's own commands allowed to the engine."""
    commands = tuple(c.command for c in basin.criteria if c.command and _plain(c.command))
    return replace(run.settings, allow=tuple(dict.fromkeys((*run.settings.allow, *commands))))


def _plain(command: str) -> bool:
    """Whether a command line is one plain command, without the shell's own characters."""
    try:
        return bool(shlex.split(command)) and not set(command) & set("|&;<>()$`\\\n*?[]#~{}!")
    except ValueError:
        return False


def _left(basin: Basin, run: Run, branch: Branch, active: float) -> float:
    """Seconds that a mind has: the attempt's deadline from its own spawn on, within the hours of the run."""
    assert basin.attempt is not None
    left = basin.attempt.deadline - max(0.0, active - branch.active)
    if run.limits.hours is not None:
        left = min(left, run.limits.hours * 3600 - active)
    return max(1.0, left)


def close_session(world: World, session: str) -> None:
    """Close a tmux session; one that cannot be closed now is said, and ends with its process."""
    try:
        world.panes.close(session)
    except Failed as error:
        world.journal.say(f"the session {session} was not closed: {error.message}")
