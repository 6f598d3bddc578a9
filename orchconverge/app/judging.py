"""Has a criterion of kind `judge` answered: an engine of the run is asked about a tree that it only reads.

It works in a folder of its own, so that nothing in the tree is taken for its instructions, and nothing of its word counts
that git does not show in that tree.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from orchconverge.app.closing import REPORTS
from orchconverge.app.environment import allowed
from orchconverge.app.trees import Trees
from orchconverge.app.world import World
from orchconverge.core import judging
from orchconverge.core.seen import Exit, Key, Outcome
from orchconverge.core.state import Basin, Branch, Run
from orchconverge.core.target import Criterion, Sha
from orchconverge.core.values import Evidence, Met
from orchconverge.core.views.text import tail
from orchconverge.errors import OrchConvergeError, Refused
from orchconverge.ports import Brief, Engine, Launch, Spec

OWN = "judge"
"""The part of the check's folder that the judge works in."""
ANSWER = f"{OWN}/answer.json"
WHO, LEFT = "who.json", "left"
"""What we keep beside it: whose judgement it is, and what the judge left in the tree, NUL between paths."""
MOST_LOG = 64 << 20
EXCERPT = 2048
NOTHING_TO_PUSH_WITH = (
    *("SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS"),
    *("GH_*", "GITHUB_*", "GITLAB_*", "GITEA_*", "BITBUCKET_*"),
)
"""Patterns of the variables that no judge gets, also where a person let minds have them."""


class Who(Struct, frozen=True, kw_only=True):
    """Whose judgement it is: an engine of the chain. ``author``: the engine of whoever made the tree, if a mind did."""

    judge: str
    author: str = ""


class Heard(Struct, frozen=True, kw_only=True):
    """What a mind that only reads left: its answer and its output, and ``why`` the answer counts for nothing."""

    who: Who
    outcome: Outcome
    answer: bytes | None
    output: bytes
    why: str


class Judges:
    """The judges of one basin. Everything they need to be found again lies in the folder of their check."""

    def __init__(self, world: World, trees: Trees) -> None:
        self.world = world
        self.trees = trees

    def start(self, basin: Basin, run: Run, criterion: Criterion, key: Key, name: str, commit: Sha) -> str:
        """Start a judge under the supervisor. Returns why nobody can judge, or an empty string."""
        supervisors = self.world.supervisors
        author = self.author(basin, commit)
        made_by, model = (author.engine, author.model) if author is not None else ("", "")
        # What no mind made is judged by who will judge what the first engine makes of it.
        works, _, its = run.settings.engines[0].partition(":")
        wanted = judging.order(run.settings.engines, author=made_by or works, model=model if made_by else its)
        tree = self.trees.to_read(key.tree, commit)
        folder = supervisors.folder(name)
        text = judging.question(
            criterion, goal=basin.goal, subject=self._subject(run, key, tree), answer=str(folder / ANSWER)
        )
        why = self.begin(
            basin,
            run,
            name=name,
            text=text,
            tree=tree,
            what=criterion.name,
            deadline_seconds=criterion.deadline,
            wanted=wanted,
            author=made_by,
        )
        if why:
            self._away(tree)
        return f"no engine of the run can judge: {why}" if why else ""

    def begin(
        self,
        basin: Basin,
        run: Run,
        *,
        name: str,
        text: str,
        tree: Path,
        what: str,
        deadline_seconds: float,
        wanted: Sequence[str],
        author: str,
    ) -> str:
        """Ask the first of the ``wanted`` engines that can: it answers ``text`` in a file and reads ``tree``.

        ``what`` is its subject in a word. Returns why none can, or an empty string.
        """
        supervisors = self.world.supervisors
        folder = supervisors.folder(name)
        brief = Brief(
            text=text,
            text_path=folder / "question.md",
            report_path=folder / ANSWER,
            folder=folder,
            cwd=folder / OWN,
            branch="",
            attempt=basin.attempts,
            approach="",
            usd=None if run.limits.usd is None else max(0.01, run.limits.usd - (basin.usage.usd or 0.0)),
            judge=what,
            reads=tree,
        )
        refused: list[str] = []
        for chosen in wanted:
            try:
                engine, launch = self._launch(run, chosen, brief)
            except Refused as refusal:
                refused.append(refusal.message)
                continue
            spec = Spec(
                name=name,
                cwd=brief.cwd,
                argv=launch.argv,
                env=self._environment(engine, launch, brief),
                stdin=brief.text_path if launch.brief_on_stdin else None,
                deadline_seconds=deadline_seconds,
                linger_seconds=launch.linger_seconds,
            )
            argv = supervisors.prepare(spec)  # of one that was lost this begins an empty folder
            supervisors.subfolder(name, OWN)
            supervisors.put(name, brief.text_path.name, text.encode("utf-8", "replace"))
            supervisors.put(name, WHO, msgspec.json.encode(Who(judge=chosen, author=author)))
            for file, content in launch.files.items():
                supervisors.put(name, file, content.encode("utf-8", "replace"))
            supervisors.launch(argv)
            self.world.journal.say(f"{chosen} judges {what} in {tree.name}")
            return ""
        return "; ".join(refused)

    def answer_of(self, name: str) -> Path:
        """The file that who was asked under this name answers in."""
        return self.world.supervisors.folder(name) / ANSWER

    def author(self, basin: Basin, commit: Sha) -> Branch | None:
        """The mind that made what is judged: whose head it is, else the newest one with commits."""
        branches = [b for b in self.world.ledger.state.branches_of(basin.id) if b.head not in (None, b.base)]
        made = next((b for b in reversed(branches) if commit in (b.head, b.merge_commit)), None)
        return made or next(reversed(branches), None)

    def _subject(self, run: Run, key: Key, tree: Path) -> judging.Subject:
        git, base = self.world.git, Sha(run.settings.base)
        head = git.checkout(tree).head
        assert head is not None
        found = git.compare.difference(base, head, patch=True)
        changed = tuple(change.path for change in found.changes if not change.path.startswith(f"{REPORTS}/"))
        patch = judging.shown(found.patch, without=REPORTS)
        return judging.Subject(tree=key.tree, path=str(tree), changed=changed, patch=patch)

    def _launch(self, run: Run, chosen: str, brief: Brief) -> tuple[Engine, Launch]:
        """How an engine is started as a judge: with what it may by itself and no more. Raises `Refused`."""
        name, _, model = chosen.partition(":")
        engine = self.world.engines.get(name)
        if engine is None or engine.find() is None:
            raise Refused(f"{name} is not installed")
        least = msgspec.structs.replace(run.settings, permissions="default", allow=())
        return engine, engine.launch(msgspec.structs.replace(brief, model=model), least)

    def _environment(self, engine: Engine, launch: Launch, brief: Brief) -> Mapping[str, str]:
        given = allowed(self.world.host.environment(), also=(*engine.variables, *self.world.allowed))
        kept = {n: v for n, v in given.items() if not any(fnmatch.fnmatchcase(n, p) for p in NOTHING_TO_PUSH_WITH)}
        return {
            **kept,
            **launch.env,
            "ORCHCONVERGE_INSIDE": "1",
            "ORCHCONVERGE_BRIEF": str(brief.text_path),
            "ORCHCONVERGE_REPORT": str(brief.report_path),
            "TMUX_TMPDIR": str(brief.cwd),
            "GIT_ALLOW_PROTOCOL": "none",  # git reaches no other repository, not even beside it
            "GIT_TERMINAL_PROMPT": "0",
        }

    # --- the answer --------------------------------------------------------------------------------------------------

    def evidence(self, basin: Basin, run: Run, criterion: Criterion, key: Key, name: str, found: Exit) -> Evidence:
        """What came of it. Whatever is no answer, or was given on a tree that changed meanwhile, is unknown, with the reason."""
        heard = self.heard(key.tree, name, found)
        who, outcome = heard.who, heard.outcome
        digest, log = self.world.shelf.keep((heard.answer or b"") + b"\n\n" + heard.output)
        weighed = judging.Weighed(met="unknown", told=(heard.why,))
        if not heard.why:
            try:
                weighed = self._weighed(criterion, key, heard.answer)
            except ValueError as error:
                said = tail(outcome.error or outcome.summary, 300)
                weighed = judging.Weighed(met="unknown", told=(f"{error}" + (f": {said}" if said else ""),))
        last = judging.said_by(
            who.judge,
            author=who.author,
            alone=all(each.partition(":")[0] == who.author for each in run.settings.engines),
            weighed=weighed,
            whole=len(judging.clauses_of(criterion)),
            usage=outcome.usage,
        )
        met: Met = weighed.met
        return Evidence(
            criterion=criterion.name,
            met=met,
            exit=found.code,
            seconds=round(found.seconds, 3),
            tree=key.tree,
            place=key.place,
            tries=key.tries,
            digest=digest,
            log=log,
            excerpt=tail("\n".join((*weighed.told, last)), EXCERPT),
            passed=weighed.passed,
        )

    def heard(self, tree: Sha, name: str, found: Exit) -> Heard:
        """What was answered, and why that counts for nothing, if it does not. The tree that was read is taken away."""
        supervisors = self.world.supervisors
        who = msgspec.json.decode(supervisors.get(name, WHO) or b'{"judge": ""}', type=Who)
        output = supervisors.log(name, most_bytes=MOST_LOG)
        engine = self.world.engines.get(who.judge.partition(":")[0])
        outcome = engine.read(output) if engine is not None else Outcome()
        answer = supervisors.get(name, ANSWER, most_bytes=judging.MOST_ANSWER + 1)
        why = self._void(found, outcome, self._left(tree, name))
        return Heard(who=who, outcome=outcome, answer=answer, output=output, why=why)

    def _weighed(self, criterion: Criterion, key: Key, answer: bytes | None) -> judging.Weighed:
        """What an answer is worth, its quotes looked up in git. Raises `ValueError` where it is none."""
        judgement, root = judging.judgement(answer), str(self.trees.read(key.tree))
        held = self.world.git.compare.files(key.tree, judging.cited(judgement, root=root))
        files = {path: data.decode("utf-8", "replace") for path, data in held.items()}
        return judging.weighed(criterion, judgement, files=files, root=root)

    def _void(self, found: Exit, outcome: Outcome, left: tuple[str, ...]) -> str:
        """Why nothing that was answered counts; empty if it does."""
        if found.reason != "exited":
            return f"no answer: {found.reason} after {found.seconds:.0f} s {found.error}".rstrip()
        if outcome.limit is not None or outcome.auth_failed:
            return f"no answer: {tail(outcome.error, 300) or 'its engine is at a limit'}"
        return f"the judge changed the tree that it judged: {', '.join(left[:5])}" if left else ""

    def _left(self, tree: Sha, name: str) -> tuple[str, ...]:
        """What a judge changed of the tree. Looked at once and kept, and then the tree is taken away."""
        supervisors, path = self.world.supervisors, self.trees.read(tree)
        kept = supervisors.get(name, LEFT)
        if kept is None:
            supervisors.put(name, LEFT, "\0".join(self._changed(path, tree)).encode("utf-8", "surrogateescape"))
            kept = supervisors.get(name, LEFT) or b""
        self._away(path)
        return tuple(filter(None, kept.decode("utf-8", "surrogateescape").split("\0")))

    def _changed(self, path: Path, tree: Sha) -> tuple[str, ...]:
        git = self.world.git
        if not path.is_dir():
            return ("it is gone",)
        try:
            stands = git.checkout(path)
        except OrchConvergeError as error:
            return (f"it cannot be read: {error.message}",)
        if stands.head is None or git.tree_of(stands.head) != tree:
            return ("its HEAD",)
        return (*stands.dirty, *stands.untracked)

    def _away(self, path: Path) -> None:
        try:
            self.world.git.remove_worktree(path)
        except OrchConvergeError as error:
            self.world.journal.say(f"kept {path.name}: {error.message}")


def asked_of(criterion: Criterion) -> str:
    """What tells one question to a judge from another, in place of a command."""
    return "\0".join(("judge", criterion.name, *judging.clauses_of(criterion)))
