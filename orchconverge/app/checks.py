"""Runs criteria under the supervisor and turns how they ended into evidence. What a mind says is never asked."""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec.structs import replace

from orchconverge.app.closing import REPORTS
from orchconverge.app.environment import allowed
from orchconverge.app.judging import Judges, asked_of
from orchconverge.app.trees import SetupFailed, Trees
from orchconverge.app.world import World, check_name
from orchconverge.core.flags import matches
from orchconverge.core.seen import Absent, Ended, Exit, Key, Lost, Running, Starting, Unknown
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import FROM_GIT, RUN_BY_US, Criterion, Sha
from orchconverge.core.testids import passed_ids
from orchconverge.core.values import Evidence, Met
from orchconverge.core.views.text import tail
from orchconverge.ports import Spec

CANNOT_START = (126, 127)
MOST_OUTPUT = 8 << 20
MOST_JUNIT = 32 << 20
EXCERPT = 2048
LOST_AT_MOST = 3
UNSURE_AT_MOST = 3


class Checks:
    """The checks of one run: those that are awaited, and the answers so far."""

    def __init__(self, world: World, trees: Trees, *, anew: str = "") -> None:
        self.world = world
        self.trees = trees
        self.anew = anew
        """What makes its checks others than those of the run before: they are run again, not found."""
        self.judges = Judges(world, trees)
        self.answers: dict[Key, Evidence] = {}
        self.awaited: dict[Key, tuple[str, Sha]] = {}
        self.spoiled: set[Sha] = set()
        """Trees that the caller's directory did not hold, clean, all the time: they are checked in one of ours."""
        self.lost: dict[str, int] = {}
        self.ending: list[str] = []
        self.swept: set[str] = set()
        self.unsure: dict[str, int] = {}
        self.own: set[str] = set()
        """What was asked here, by supervised name."""

    def ask(self, basin: Basin, run: Run, key: Key, commit: Sha) -> bool:
        """Start a check, or find it running or ended. True if it is answered already."""
        criterion = next(c for c in basin.criteria if c.name == key.criterion)
        if criterion.kind not in FROM_GIT | RUN_BY_US | {"judge"}:
            self._cannot(criterion, key, f"nothing here can answer a criterion of kind {criterion.kind}")
            return True
        if criterion.kind in FROM_GIT:
            self.answers[key] = self._from_git(basin, run, criterion, key, commit)
            return True
        if criterion.kind == "judge" and (known := self._judged(basin, key)) is not None:
            self.answers[key] = known
            return True
        command, place = criterion.command, key.place
        if criterion.kind == "judge":  # by a tree of its own, wherever the others are asked
            command, place = asked_of(criterion), "fresh"
        name = check_name(basin.id, run.epoch, basin.attempts, command, key.tree, place, key.tries, anew=self.anew)
        self.awaited[key] = (name, commit)
        self.own.add(name)
        try:
            return self._advance(basin, run, criterion, key, name, commit)
        except SetupFailed as failure:
            self.awaited.pop(key)
            self._cannot(criterion, key, failure.message)
            return True

    def _cannot(self, criterion: Criterion, key: Key, why: str) -> None:
        met: Met = "unknown" if criterion.kind == "judge" else "error"
        self.answers[key] = Evidence(
            criterion=key.criterion, met=met, tree=key.tree, place=key.place, tries=key.tries, excerpt=why
        )

    def _judged(self, basin: Basin, key: Key) -> Evidence | None:
        """What a judge said of this tree, in whichever place it was asked about: once it has judged, it is not asked again."""
        recorded = self.world.ledger.state.results.get(basin.id, {}) if not self.anew else {}
        known = [*recorded.values(), *self.answers.values()]
        same = (one for one in known if (one.criterion, one.tree) == (key.criterion, key.tree))
        found = next((one for one in same if one.met != "unknown" or one.tries == key.tries), None)
        return None if found is None else replace(found, place=key.place, tries=key.tries)

    def _advance(self, basin: Basin, run: Run, criterion: Criterion, key: Key, name: str, commit: Sha) -> bool:
        probe = self.world.supervisors.probe(name)
        if isinstance(probe, Ended):
            self._ended(basin, run, criterion, key, name, probe.exit, commit)
            return True
        if isinstance(probe, Lost):
            self.lost[name] = self.lost.get(name, 0) + 1
            self.world.supervisors.kill(name)
        if isinstance(probe, Lost) and self.lost[name] >= LOST_AT_MOST:
            self.awaited.pop(key)
            self._cannot(criterion, key, f"its supervisor was killed {LOST_AT_MOST} times")
            return True
        if isinstance(probe, Absent | Lost) and criterion.kind == "judge":
            why = self.judges.start(basin, run, criterion, key, name, commit)
            if why:
                self.awaited.pop(key)
                self._cannot(criterion, key, why)
            return bool(why)
        if isinstance(probe, Absent | Lost):
            return self._start(run, criterion, key, name, commit)
        return False

    def _ended(
        self, basin: Basin, run: Run, criterion: Criterion, key: Key, name: str, found: Exit, commit: Sha
    ) -> None:
        """Take the answer of a check, if what it ran on stayed what it was asked about; what it changed is not passed on."""
        if criterion.kind == "judge":
            self.answers[key] = self.judges.evidence(basin, run, criterion, key, name, found)
            self.awaited.pop(key)
            return
        if key.place == "here" and self._disturbed(run, key):
            self.spoiled.add(key.tree)
        else:
            self.answers[key] = self._evidence(run, criterion, key, name, found)
        if key.place == "fresh":
            self.trees.used(key.tree, commit)
        self.awaited.pop(key)

    def _disturbed(self, run: Run, key: Key) -> bool:
        """Whether the caller's directory is not, or no longer, a clean tree of what is asked about."""
        stands = self.world.git.checkout(Path(run.settings.checkout))
        return bool(stands.dirty) or stands.head is None or self.world.git.tree_of(stands.head) != key.tree

    def _start(self, run: Run, criterion: Criterion, key: Key, name: str, commit: Sha) -> bool:
        """Start a check. True if it cannot be made in the caller's directory: then a tree of our own is asked for."""
        supervisors = self.world.supervisors
        if key.place == "here" and self._disturbed(run, key):
            self.spoiled.add(key.tree)
            self.awaited.pop(key)
            return True
        if key.place == "here":
            cwd, awaited = Path(run.settings.checkout), ""
        else:
            cwd, awaited = self.trees.for_tree(key.tree, commit, setup=run.settings.setup)
        if awaited:
            self.awaited[key] = (awaited, commit)
            self.own.add(awaited)
            return False
        folder = supervisors.folder(name)
        env = allowed(self.world.host.environment(), also=self.world.allowed)
        env["ORCHCONVERGE_INSIDE"] = "1"
        env["ORCHCONVERGE_JUNIT"] = str(folder / "junit.xml")
        if criterion.kind == "tests":
            env["PYTEST_ADDOPTS"] = (
                f"{env.get('PYTEST_ADDOPTS', '')} --junitxml={shlex.quote(str(folder / 'junit.xml'))}".strip()
            )
        spec = Spec(
            name=name,
            cwd=cwd,
            argv=("/bin/sh", "-c", criterion.command),
            env=env,
            deadline_seconds=criterion.deadline,
        )
        argv = supervisors.prepare(spec)
        if key.place == "here":
            before = self.world.git.checkout(cwd).untracked
            supervisors.put(name, "before", "\0".join(before).encode("utf-8", "surrogateescape"))
        supervisors.launch(argv)
        self.world.journal.say(f"checks {criterion.name} on {key.tree:.8} ({key.place})")
        return False

    def _evidence(self, run: Run, criterion: Criterion, key: Key, name: str, found: Exit) -> Evidence:
        supervisors = self.world.supervisors
        output = supervisors.log(name, most_bytes=MOST_OUTPUT)
        digest, log = self.world.shelf.keep(output)
        text = output.decode("utf-8", "replace")
        excerpt = tail(text, EXCERPT)
        met: Met = "yes" if found.reason == "exited" and found.code == 0 else "no"
        if found.code in CANNOT_START or found.reason == "refused":
            met, excerpt = "error", excerpt or found.error
        if found.reason in ("deadline", "killed"):
            excerpt = f"{excerpt}\n[{found.reason} after {found.seconds:.0f} s]"
        passed: tuple[str, ...] = ()
        if criterion.kind == "tests":
            passed = passed_ids(supervisors.get(name, "junit.xml", most_bytes=MOST_JUNIT), text)
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
            excerpt=excerpt,
            passed=passed,
            dirtied=self._dirtied(run, key, name),
        )

    def _dirtied(self, run: Run, key: Key, name: str) -> tuple[str, ...]:
        """Untracked paths that appeared in the caller's directory while a check ran."""
        before = self.world.supervisors.get(name, "before")
        if key.place != "here" or before is None:
            return ()
        known = set(before.decode("utf-8", "surrogateescape").split("\0"))
        now = self.world.git.checkout(Path(run.settings.checkout)).untracked
        return tuple(p for p in now if p not in known)[:20]

    def _from_git(self, basin: Basin, run: Run, criterion: Criterion, key: Key, commit: Sha) -> Evidence:
        """Kinds that git answers: `changed`, `mergeable`, `docs`."""
        git, base = self.world.git, Sha(run.settings.base)
        if git.tree_of(commit) != key.tree:  # a graft that is not committed yet: asked of a commit that no ref has
            commit = git.commit_tree(key.tree, parent=commit, message=f"a tree of {basin.id} that is checked")
        met: Met = "yes"
        excerpt = ""
        if criterion.kind == "mergeable":
            onto = run.settings.onto and git.resolve(run.settings.onto)
            merges = git.merges(onto, commit) if onto else True
            met = "error" if merges is None else "yes" if merges else "no"
            excerpt = "" if merges else f"conflicts with {run.settings.onto}"
        else:
            work = git.work(base, commit).changed if base != commit else ()
            changed = {path for path in work if not path.startswith(f"{REPORTS}/")}  # those are ours, and no work
            if criterion.kind == "changed":
                met = "yes" if changed else "no"
            else:
                unchanged = [p for p in criterion.paths if not any(matches(path, p) for path in changed)]
                met, excerpt = ("no" if unchanged else "yes"), ", ".join(f"{p} is not changed" for p in unchanged)
        return Evidence(criterion=criterion.name, met=met, tree=key.tree, place=key.place, excerpt=excerpt)

    def poll(self, basin: Basin, run: Run) -> None:
        """Look at every awaited check again."""
        for key, (_, commit) in list(self.awaited.items()):
            self.ask(basin, run, key, commit)

    def names(self) -> list[str]:
        """What is awaited, or was told to end, by supervised name."""
        return [*(name for name, _ in self.awaited.values()), *self.ending]

    def alive(self) -> bool:
        """Whether a check or setup of this basin may still run, those included that a lost controller started."""
        return any(self._may_run(name) for name in self._all())

    def end(self) -> None:
        """End the checks and setups that run, and what is left of those whose supervisor was killed; await none any more."""
        self.awaited.clear()
        self.ending = [name for name in self._all() if self._may_run(name)]
        for name in self._all():
            self.world.supervisors.stop(name)
            if isinstance(self.world.supervisors.probe(name), Lost) and name not in self.swept:
                self.world.supervisors.kill(name)
                self.swept.add(name)

    def _all(self) -> list[str]:
        if self.anew:  # of a person at the lock: a controller's own checks go on
            return sorted(self.own)
        found = self.world.supervisors.found
        return [*found(f"checks/{self.trees.basin}."), *found(f"setups/{self.trees.basin}.")]

    def _may_run(self, name: str) -> bool:
        """An answer that could not be had is asked for again, but a damaged folder holds nobody up for ever."""
        probe = self.world.supervisors.probe(name)
        if isinstance(probe, Unknown):
            self.unsure[name] = self.unsure.get(name, 0) + 1
            return self.unsure[name] < UNSURE_AT_MOST
        return isinstance(probe, Running | Starting)
