"""What simulated minds, checks, setups and steps do with the simulated repository."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from random import Random

import msgspec

from orchconverge.core.seen import Outcome, StepResult
from orchconverge.core.target import Sha
from orchconverge.core.values import Limit, Usage
from orchconverge.errors import OrchConvergeError
from orchconverge.ports import Spec
from tests.fakes.clock import Time
from tests.fakes.git import MemoryGit, Store
from tests.fakes.story import Story
from tests.fakes.supervisors import Machine, Program

TARGET = "topic"
TARGETS = {"goal": TARGET, "beside": "apart"}
"""The branch that each pursuit goes into."""
REPORT = "docs/report.md"


def met(files: Mapping[str, str], command: str) -> bool:
    """The truth about a criterion's command in a tree of these files."""
    if command == "run-all":
        return all(text == "green" for name, text in files.items() if name.startswith("t-"))
    return all(files.get(name, "").startswith("yes") for name in saying(command))


def saying(command: str) -> tuple[str, ...]:
    """The files that have to say yes."""
    how, _, name = command.partition(" ")
    return (f"{name}.txt", f"{name}-too.txt") if how == "pair" else (f"{name}.txt",)


def judges(spec: Spec) -> bool:
    """Whether it is the check of a criterion of kind `judge`."""
    return spec.cwd.name == "judge"


class Players:
    """Plays each process that is started. What a name does depends on the seed and the name, never on when it is asked."""

    def __init__(self, story: Story, time: Time, store: Store, trees: Path) -> None:
        self.story = story
        self.time = time
        self.store = store
        self.git = MemoryGit(store, trees)
        self.machine: Machine | None = None
        self.commits: list[Sha] = []
        """Every commit that a mind made."""
        self.ran: set[tuple[str, Sha]] = set()
        """Every (command, tree) that a check really looked at."""
        self.judged: list[tuple[str, Sha]] = []
        """Every judge that answered, by its name, and for which tree."""
        self.minds: list[str] = []
        """What each mind that was started does, in order."""
        self.seconds: dict[str, float] = {}

    def refuse(self, spec: Spec) -> str:
        if judges(spec):
            return ""
        tree = self.store.places.get(spec.cwd)
        if tree is None:
            return f"{spec.cwd} does not exist"
        if spec.branch is not None and tree.branch != spec.branch:
            return f"{spec.cwd} is on {tree.branch}, not on {spec.branch}"
        return ""

    def play(self, spec: Spec) -> Program:
        random = Random(f"{self.story.seed} {spec.name}")
        kind = spec.name.partition("/")[0]
        plays = {"minds": self._mind, "steps": self._step, "checks": self._check, "setups": self._setup}
        plays |= {"gates": self._check, "gatesetups": self._setup}
        program = plays[kind](spec, random)
        rates = self.story.rates
        program.begins = random.choice((0.0, 0.02, 0.3)) if rates.slow else 0.02
        again = self.machine is not None and self.machine.entries[spec.name].files.pop("lost start", None) is not None
        if not again and random.random() < rates.lost_start:
            program.begins = None
            if self.machine is not None:
                self.machine.entries[spec.name].files["lost start"] = b""
        program.obeys = random.choice((0.0, 0.1, 2.0, math.inf)) if rates.hang else 0.0
        program.orphans = random.random() < 0.5
        return program

    # --- minds -------------------------------------------------------------------------------------------------------

    def _mind(self, spec: Spec, random: Random) -> Program:
        story, number = self.story, int(spec.name.rpartition(".")[2])
        what = (
            story.minds[number - 1]
            if number <= len(story.minds)
            else random.choices(tuple(story.repertoire), tuple(story.repertoire.values()))[0]
        )
        self.minds.append(what)
        seconds = random.choice((5.0, 20.0, 50.0))
        outcome = Outcome(
            usage=Usage(inputTokens=300, outputTokens=50, usd=0.01, source="reported"),
            context=spec.argv[2] if len(spec.argv) > 2 else None,
        )
        report: dict[str, object] = {"summary": f"did {what}"}
        program = Program(seconds=seconds)
        acts = {
            "gain": [self._gain],
            "gain all": [self._gain] * 9,
            "gain and crash": [self._gain],
            "gain and hang": [self._gain],
            "regress": [self._gain, self._regress],
            "flagged": [self._gain, self._instruct],
            "deleted test": [self._gain, self._delete_test],
            "question": [self._gain],
            "noise": [self._noise],
            "empty": [self._empty],
            "leftovers": [self._gain, self._litter],
            "shared": [self._gain, self._share],
            "each": [self._each],
            "each and shared": [self._each, self._share],
            "each and break": [self._each, self._regress],
            "at once": [self._at_once],
            "at once and shared": [
                lambda spec, random: self._at_once(spec, random, {"shared.txt": f"mind {spec.name}"})
            ],
            "at once and break": [lambda spec, random: self._at_once(spec, random, {self._held(spec, random): "no"})],
            "in steps": [self._in_steps],
            "elsewhere": [self._elsewhere, self._gain],
            "detached": [self._detach, self._gain],
            "tamper": [self._gain, self._tamper],
        }.get(what, [])
        program.acts = [
            (seconds * (place + 1) / (len(acts) + 1), lambda act=act: act(spec, random))  # type: ignore[misc]
            for place, act in enumerate(acts)
        ]
        if what in ("hang", "gain and hang", "deaf"):
            program.seconds = math.inf
        if what == "deaf":
            program.obeys = math.inf
        if what in ("crash", "gain and crash"):
            program.code, program.signal = random.choice(((1, None), (None, 9)))
        if what.startswith("quota"):
            until = self.time.wall + timedelta(seconds=random.randrange(60, 900)) if what == "quota" else None
            outcome = Outcome(limit=Limit(engine=spec.argv[0], until=until), error="no quota")
            program.code = 1
        if what == "context lost":
            outcome = Outcome(context_lost=True, error="no conversation found")
            program.code = 1
        if what == "verdict":
            report["verdict"] = {"kind": "cannot", "text": random.choice(("the key is missing", "the server is away"))}
        if what == "same verdict":
            report["verdict"] = {"kind": "cannot", "text": "the key is missing"}
        if what == "question":
            asked = {"question": "is it meant so?", "blocks": "c1"}
            report |= {"frontier": [asked], "residue": ["the registry is the place", "look at README"]}
        data = b"\xff{" if what == "garbage" else msgspec.json.encode(report)
        given = "/".join(Path(spec.env["ORCHCONVERGE_REPORT"]).parts[-4:-2])
        program.acts = [*program.acts, (min(seconds, 4.0), lambda: self._leave(given, "mind/report.json", data))]
        program.log = msgspec.json.encode(outcome)
        return program

    def _leave(self, name: str, file: str, data: bytes) -> None:
        assert self.machine is not None
        self.machine.entry(name).files[file] = data

    def _commit(self, spec: Spec, changes: Mapping[str, str | None], message: str) -> None:
        tree = self.store.places.get(spec.cwd)
        if tree is None or tree.operation is not None or self.store.head(tree) is None:
            return
        action = spec.env.get("GIT_REFLOG_ACTION", "")
        sha = self.store.commit(spec.cwd, changes, message, by="mind", action=action)
        self.commits.append(sha)

    def _files(self, spec: Spec) -> Mapping[str, str]:
        tree = self.store.places.get(spec.cwd)
        return {} if tree is None else tree.files

    def _gain(self, spec: Spec, random: Random) -> None:
        files = self._files(spec)
        unmet = [c for c in self.story.criteria if c.command and not met(files, c.command)]
        if not unmet:
            return self._noise(spec, random)
        wanted = random.choice(unmet)
        if wanted.command == "run-all":
            red = {name: "green" for name, text in files.items() if name.startswith("t-") and text != "green"}
            return self._commit(spec, red, f"mend\n\nCriterion: {wanted.name}")
        changes = dict.fromkeys(saying(wanted.command), "yes")
        return self._commit(spec, changes, f"meet {wanted.name}\n\nCriterion: {wanted.name}")

    def _sampled(self, spec: Spec, random: Random) -> list[tuple[str, dict[str, str]]]:
        """Some of the criteria that are not met, and what would meet each."""
        files = self._files(spec)
        unmet = [c for c in self.story.criteria if c.command and not met(files, c.command)]
        chosen = random.sample(unmet, random.randint(1, len(unmet))) if unmet else []
        text = f"yes {spec.name}" if self.story.rivals else "yes"
        red = {name: "green" for name, found in files.items() if name.startswith("t-") and found != "green"}
        return [(c.name, red if c.command == "run-all" else dict.fromkeys(saying(c.command), text)) for c in chosen]

    def _each(self, spec: Spec, random: Random) -> None:
        for name, changes in self._sampled(spec, random):
            self._commit(spec, changes, f"meet {name}\n\nCriterion: {name}")

    def _at_once(self, spec: Spec, random: Random, also: Mapping[str, str] | None = None) -> None:
        changes = {file: text for _, files in self._sampled(spec, random) for file, text in files.items()}
        self._commit(spec, {**changes, **(also or {})}, "meet several")

    def _in_steps(self, spec: Spec, random: Random) -> None:
        for name, changes in self._sampled(spec, random):
            for file, text in changes.items():
                self._commit(spec, {file: text}, f"a step to {name}")

    def _held(self, spec: Spec, random: Random) -> str:
        """A file that has to stay as it is."""
        files = self._files(spec)
        green = [
            f"{c.name}.txt" for c in self.story.criteria if c.command.startswith("holds") and met(files, c.command)
        ]
        return random.choice(green) if green else "README"

    def _regress(self, spec: Spec, random: Random) -> None:
        held = self._held(spec, random)
        self._commit(spec, {held: "no"} if held != "README" else {"t-1": "red"}, "break")

    def _delete_test(self, spec: Spec, random: Random) -> None:
        self._commit(spec, {"t-1": None}, "tidy up")

    def _instruct(self, spec: Spec, random: Random) -> None:
        self._commit(spec, {"AGENTS.md": "be nice"}, "instruct")

    def _noise(self, spec: Spec, random: Random) -> None:
        self._commit(spec, {f"note-{random.randrange(1000)}": "x"}, "note")

    def _share(self, spec: Spec, random: Random) -> None:
        self._commit(spec, {"shared.txt": f"mind {spec.name}"}, "share")

    def _empty(self, spec: Spec, random: Random) -> None:
        self._commit(spec, {}, "nothing")

    def _litter(self, spec: Spec, random: Random) -> None:
        tree = self.store.places.get(spec.cwd)
        if tree is not None:
            tree.files[random.choice(("README", "litter"))] = "left"

    def _elsewhere(self, spec: Spec, random: Random) -> None:
        self.store.switch(spec.cwd, f"idea-{random.randrange(1000)}", create=True)

    def _detach(self, spec: Spec, random: Random) -> None:
        self.store.switch(spec.cwd, None)

    def _tamper(self, spec: Spec, random: Random) -> None:
        self.store.config = "tampered with"

    # --- checks, setups, steps ---------------------------------------------------------------------------------------

    def _judge(self, spec: Spec, random: Random) -> Program:
        """An honest judge of clauses that name a criterion: it quotes the file that says yes."""
        assert self.machine is not None
        asked = self.machine.entry(spec.name).files["question.md"].decode()
        [root] = re.findall(r"^The tree, to be read: (.+)$", asked, re.MULTILINE)
        clauses = re.findall(r"^(\d+)\. (\w+) says yes$", asked, re.MULTILINE)

        def answer() -> None:
            tree = self.store.places.get(Path(root))
            files = tree.files if tree is not None else {}
            self.judged.append((spec.name, self.store.tree(files)))
            found = [
                {"clause": int(n), "met": met(files, f"holds {c}"), "evidence": [{"path": f"{c}.txt", "quote": "yes"}]}
                for n, c in clauses
            ]
            self._leave(spec.name, "judge/answer.json", msgspec.json.encode({"clauses": found}))

        return Program(seconds=random.choice((2.0, 30.0)), acts=[(1.0, answer)], log=msgspec.json.encode(Outcome()))

    def _check(self, spec: Spec, random: Random) -> Program:
        if judges(spec):
            return self._judge(spec, random)
        rates, command = self.story.rates, spec.argv[-1]
        program = Program(seconds=random.choice((0.5, 2.0, 8.0)))
        answer = [127]

        def look() -> None:
            tree = self.store.places.get(spec.cwd)
            if tree is None:
                return
            tracked = self.store.tracked(tree) if spec.cwd == self.store.root else tree.files
            files = {name: tree.files[name] for name in tracked if name in tree.files}
            self.ran.add((command, self.store.tree(files)))
            missing = self.story.fresh_differs and spec.cwd != self.store.root and not tree.prepared
            answer[0] = 0 if met(files, command) and not missing else 1
            if command == "run-all":
                cases = [
                    f'<testcase classname="t" name="{name}">{"" if text == "green" else "<failure/>"}</testcase>'
                    for name, text in sorted(files.items())
                    if name.startswith("t-")
                ]
                self._leave(spec.name, "junit.xml", f"<testsuite>{''.join(cases)}</testsuite>".encode())

        def finish() -> int:
            return 1 if answer[0] == 0 and random.random() < rates.flaky else answer[0]

        program.acts = [(0.0, look)]
        program.finish = finish
        program.log = f"ran {command}".encode()
        if random.random() < rates.hang:
            program.seconds = math.inf
        return program

    def _setup(self, spec: Spec, random: Random) -> Program:
        works = random.random() >= self.story.rates.setup
        tree = self.store.places.get(spec.cwd)
        return Program(
            seconds=random.choice((1.0, 30.0)),
            code=0 if works else 1,
            acts=[(0.5, lambda: setattr(tree, "prepared", True))],
            log=b"cannot install",
        )

    def _step(self, spec: Spec, random: Random) -> Program:
        step, target = spec.name.rpartition(".")[2], TARGETS[spec.name.partition("/")[2].partition(".")[0]]
        rates = self.story.rates
        says = random.random() >= rates.setup / 2

        def act() -> None:
            result = StepResult(status="skipped", detail="not built")
            try:
                if step == "pushl":
                    result = self._push(target)
                elif step == "report":
                    made = self.git.commit_file(target, REPORT, f"report of {self.story.seed}", "report")
                    result = StepResult(status="done", detail="committed", path=REPORT, commit=made)
            except OrchConvergeError as error:
                result = StepResult(status="failed", detail=error.message)
            self._leave(spec.name, "result.json", msgspec.json.encode(result) if says else b"nonsense")

        program = Program(seconds=random.choice((1.0, 10.0)), acts=[(0.5, act)], log=b"stepped")
        if random.random() < rates.hang / 3:
            program.seconds, program.acts = math.inf, ()
        return program

    def _push(self, target: str) -> StepResult:
        head = self.git.resolve(f"refs/heads/{target}")
        if head is None or "origin" not in self.git.remotes():
            return StepResult(status="skipped", detail="no remote called origin")
        went, said = self.git.push("origin", head, target)
        return StepResult(status="done" if went else "failed", detail=said, commit=head)
