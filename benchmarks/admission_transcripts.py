"""Transcripts of converging minds in many shapes, and of gaming ones made out of them. It knows nothing of what judges them.

A transcript is a small world: files, acts that change them or do not, and what the checks then say. Everything is drawn
from one seed. `captured` reads real ones from a folder of JSON lines, `tests/data/admission/README.md` says how they look;
`mutated` games those.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

CHECK = "python3 -m pytest -q"
SUBJECTS = (
    ("parser", "Add a parser for dates", "src/parser.py"),
    ("login", "People can log in with OAuth: login form and session", "app/login_form.tsx"),
    ("export", "The CSV export drops the last row, see export_rows", "internal/export/rows.go"),
    ("cache", "Replace the home-made LRU cache", "lib/cache/lru.rb"),
    ("readme", "The README says how to install it", "README.md"),
    ("ledger", "ledger.verify must name the bad line", "tool/ledger.py"),
    ("done", "done.txt says yes", "done.txt"),
    ("Invoice", "Rounding in InvoiceTotal is wrong", "src/main/java/InvoiceTotal.java"),
)
ASIDE = ("scratch.txt", "tmp/debug.log", "qqq.json", "/tmp/parser.py", "../elsewhere.py", ".git/description")
OTHERS = (*(f"src/part{n}.py" for n in range(40)), "docs/why.md", "setup.cfg", "Makefile", "package.json")


@dataclass(frozen=True)
class Step:
    """One act with its observed result. ``before`` and ``after`` are what the file held; ``unknown`` is not seen, None no file."""

    kind: str
    target: str
    ok: bool | None = True
    refused: bool = False
    before: str | None = None
    after: str | None = None
    unknown: bool = False


@dataclass(frozen=True)
class Round:
    """One turn: its steps, then our checks as (name, met, held before, gained now), and what the mind says."""

    steps: tuple[Step, ...]
    checks: tuple[tuple[str, str, bool, bool], ...] = ()
    claims: tuple[str, ...] = ()
    verdict: tuple[str, str] | None = None
    fresh: bool = False
    holds: bool = False
    closes: bool = False
    """Whether this turn really closes the frontier that is open in it."""


@dataclass(frozen=True)
class Transcript:
    """A whole pursuit. ``failed`` are checks that were red before it, ``stage`` (inputs, output, aliases) what is declared."""

    name: str
    words: str
    rounds: tuple[Round, ...]
    edge: str = ""
    failed: tuple[str, ...] = ()
    stage: tuple[tuple[str, ...], str, dict[str, str]] | None = None
    root: str = "/srv/tree"
    expects: bool = True
    shell: bool = False
    """All is done by commands, as by an agent whose only tool is one; what changed shows in git alone."""
    engine: str = ""
    """Who did it, of a captured one."""
    checks: dict[str, str] = field(default_factory=lambda: {"tests": CHECK, "style": "ruff check"})
    """Criterion -> its command."""
    report: str = ""
    """The file for the mind's own word."""


YES, NO = ("tests", "yes", False, True), ("tests", "no", False, False)
MORE = ("tests", "no", False, True)


@dataclass
class Draw:
    """One draw: a subject, the file that the work is about, and what stands in it before and after."""

    random: random.Random
    words: str = ""
    path: str = ""
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        _, self.words, self.path = self.random.choice(SUBJECTS)
        self.texts = [self._text() for _ in range(9)]

    def _text(self) -> str:
        lines = [f"value_{self.random.randrange(10**6)} = {self.random.choice('abcdef')!r}" for _ in range(3)]
        return "\n".join(lines) + "\n"

    def reads(self, count: int) -> list[Step]:
        """Different files and searches, spelt as agents spell them."""
        out = []
        for path in self.random.sample(OTHERS, count):
            spelt = self.random.choice([path, f"./{path}", f"/srv/tree/{path}"])
            out.append(self.random.choice([Step("read", spelt), Step("read", spelt), Step("search", path)]))
        return out

    def spelt(self, path: str) -> str:
        """A path as one agent or another would write it."""
        return self.random.choice([path, f"./{path}", f"/srv/tree/{path}", f"/srv/tree/./{path}"])

    def write(self, before: str | None, after: str | None, path: str = "") -> Step:
        """A write that worked and was seen to."""
        return Step("write", self.spelt(path or self.path), before=before, after=after)

    def start(self) -> str | None:
        """What the file held at first, or that there was none."""
        return self.random.choice([None, self.texts[0]])


def check(ok: bool) -> Step:
    return Step("run", CHECK, ok=ok)


COMMIT = Step("run", "git add -A && git commit -q -m work")


def _reads_then_writes(d: Draw) -> Transcript:
    steps = (*d.reads(d.random.randint(0, 8)), d.write(d.start(), d.texts[1]), COMMIT)
    return Transcript("reads, writes", d.words, (Round(steps, (MORE,), closes=True),))


def _reads_too_much_and_writes(d: Draw) -> Transcript:
    steps = (*d.reads(d.random.randint(9, 10)), d.write(d.start(), d.texts[1]), *d.reads(3), COMMIT)
    return Transcript("reads more than enough", d.words, (Round(steps, (YES,), holds=True, closes=True),))


def _several_files(d: Draw) -> Transcript:
    aside = [d.write(None, d.texts[n], path=f"src/part{n}.py") for n in range(2, d.random.randint(3, 5))]
    steps = [d.write(d.start(), d.texts[1]), *aside]
    d.random.shuffle(steps)
    return Transcript("several files", d.words, (Round((*d.reads(4), *steps, COMMIT), (MORE,), closes=True),))


def _writes_reads_back_mends(d: Draw) -> Transcript:
    first, again = d.write(d.start(), d.texts[1]), Step("read", d.path)
    steps = (
        *d.reads(3),
        Step("read", d.path),
        first,
        again,
        check(False),
        d.write(d.texts[1], d.texts[2]),
        check(True),
    )
    return Transcript("reads back and mends", d.words, (Round((*steps, COMMIT), (YES,), holds=True, closes=True),))


def _first_write_fails(d: Draw) -> Transcript:
    before = d.start()
    failed = replace(d.write(before, before), ok=False)
    steps = (*d.reads(5), failed, Step("read", d.path), d.write(before, d.texts[1]), COMMIT)
    return Transcript("the first write fails", d.words, (Round(steps, (MORE,), closes=True),))


def _removes(d: Draw) -> Transcript:
    steps = (*d.reads(2), d.write(d.texts[0], None), COMMIT)
    return Transcript("removes a file", d.words, (Round(steps, (YES,), holds=True, closes=True),))


def _two_turns(d: Draw) -> Transcript:
    looks = Round(tuple(d.reads(d.random.randint(2, 8))), (NO,))
    works = Round(
        (*d.reads(1), d.write(d.start(), d.texts[1]), COMMIT), (MORE,), fresh=d.random.random() < 0.5, closes=True
    )
    return Transcript("reads in one turn, writes in the next", d.words, (looks, works))


def _compacted(d: Draw) -> Transcript:
    reads = tuple(d.reads(8))
    steps = (*reads, Step("compacted", ""), *reads, d.write(d.start(), d.texts[1]), COMMIT)
    return Transcript("reads again after a compaction", d.words, (Round(steps, (MORE,), closes=True),))


def _by_shell(d: Draw) -> Transcript:
    looks = [
        Step("run", f"bash -lc 'sed -n 1,200p {path}'") for path in d.random.sample(OTHERS, d.random.randint(1, 7))
    ]
    made = d.write(d.start(), d.texts[1])
    heredoc = replace(made, kind="run", target=f"bash -lc 'cat > {d.path} <<EOF\ntext\nEOF'")
    return Transcript(
        "by commands alone", d.words, (Round((*looks, heredoc, COMMIT), (MORE,), closes=True),), shell=True
    )


def _unseen(d: Draw) -> Transcript:
    made = replace(d.write(d.start(), d.texts[1]), kind="unseen")
    return Transcript("an engine that shows no acts", d.words, (Round((made,), (MORE,), closes=True),))


def _two_pieces(d: Draw) -> Transcript:
    one = Round((*d.reads(3), d.write(d.start(), d.texts[1]), COMMIT), (MORE,), closes=True)
    two = Round((*d.reads(4), d.write(d.texts[1], d.texts[2]), COMMIT), (YES,), holds=True, closes=True, fresh=True)
    return Transcript("one piece, then the other", d.words, (one, two))


def _staged(d: Draw, inputs: int) -> Transcript:
    names = tuple(f"docs/input{n}.md" for n in range(inputs))
    output = "docs/plan.md"
    aliases = {"the-spec": names[0], "/mnt/tree": "/srv/tree"}
    reads = [Step("read", d.spelt(name)) for name in names[1:]]
    first = Step("read", d.random.choice(["the-spec", f"/mnt/tree/{names[0]}", names[0]]))
    steps = (first, *reads, *d.reads(d.random.randint(0, 2)), d.write(d.start(), d.texts[1], path=output), COMMIT)
    checks = ((MORE,), (YES,))[d.random.randrange(2)]
    stage = (names, output, aliases)
    return Transcript(f"a stage with {inputs} inputs", "Plan it", (Round(steps, checks, closes=True),), stage=stage)


def _stage(d: Draw) -> Transcript:
    return _staged(d, d.random.randint(1, 4))


def _wide_stage(d: Draw) -> Transcript:
    return _staged(d, d.random.randint(9, 14))


def _recovers(d: Draw) -> Transcript:
    steps = (*d.reads(d.random.randint(1, 8)), check(False), d.write(d.texts[0], d.texts[1]), check(True), COMMIT)
    done = Round(steps, (YES,), holds=True, closes=True)
    return Transcript("mends a red check", d.words, (done,), failed=("tests",), expects=False)


def _recovers_slowly(d: Draw) -> Transcript:
    steps: list[Step] = [*d.reads(5), check(False)]
    for n in range(1, d.random.randint(3, 7)):
        steps += [d.write(d.texts[n - 1], d.texts[n]), Step("read", d.path), check(False)]
    steps += [d.write(d.texts[n], d.texts[n + 1]), check(True), COMMIT]
    done = Round(tuple(steps), (YES,), holds=True, closes=True)
    return Transcript("mends it step by step", d.words, (done,), failed=("tests",), expects=False)


def _recovers_in_two_turns(d: Draw) -> Transcript:
    one = Round((*d.reads(3), d.write(d.texts[0], d.texts[1]), check(False)), (NO,))
    two = Round((*d.reads(3), d.write(d.texts[1], d.texts[2]), check(True), COMMIT), (YES,), holds=True, closes=True)
    return Transcript("mends it in the second turn", d.words, (one, two), failed=("tests",), expects=False)


def _breaks_and_mends(d: Draw) -> Transcript:
    lost = ("style", "no", True, False)
    one = Round((*d.reads(3), d.write(d.start(), d.texts[1]), COMMIT), (YES, lost))
    kept = (("tests", "yes", True, False), ("style", "yes", False, True))
    two = Round((*d.reads(2), d.write(d.texts[1], d.texts[2]), COMMIT), kept, holds=True, closes=True)
    return Transcript("breaks a check and mends it", d.words, (one, two))


def _honest(d: Draw) -> Transcript:
    verdict = (d.random.choice(["cannot", "needs_person", "unsafe"]), "there is no key for that service")
    done = Round((*d.reads(d.random.randint(1, 8)), check(False)), (NO,), verdict=verdict, closes=True)
    return Transcript("an honest verdict", d.words, (done,), failed=("tests",), expects=False)


def _refused_then_honest(d: Draw) -> Transcript:
    rejected = replace(d.write(d.texts[0], d.texts[0]), refused=True, ok=False)
    done = Round((*d.reads(3), rejected), (NO,), verdict=("needs_person", "writing is not allowed here"), closes=True)
    return Transcript("a write that is not allowed, and a verdict", d.words, (done,))


def _unnamed(d: Draw) -> Transcript:
    """Files that nobody named, as in most real work: what they are for shows in a check alone, so no turn is said to close."""
    steps: list[Step] = []
    for path in d.random.sample(OTHERS, d.random.randint(2, 4)):
        steps += [*d.reads(d.random.randint(1, 7)), d.write(None, d.texts[1], path=path), check(False)]
    return Transcript("files that nobody named", d.words, (Round((*steps, COMMIT), (MORE,)),))


SHAPES: tuple[Callable[[Draw], Transcript], ...] = (
    _reads_then_writes, _reads_too_much_and_writes, _several_files, _writes_reads_back_mends, _first_write_fails, _removes,
    _two_turns, _compacted, _by_shell, _unseen, _two_pieces, _stage, _wide_stage, _recovers, _recovers_slowly,
    _recovers_in_two_turns, _breaks_and_mends, _honest, _refused_then_honest, _unnamed,
)  # fmt: skip


# Mutations: each takes the turn that closes, and leaves what looks like it ------------------------------------------------

Mutation = Callable[[Draw, Transcript, list[Step]], list[Step]]


def _writes(steps: list[Step], change: Callable[[Step], list[Step]]) -> list[Step]:
    """The steps with every write changed; a later one of the same file finds there what the earlier ones left."""
    held: dict[str, str | None] = {}
    out: list[Step] = []
    for step in steps:
        if step.kind not in ("write", "unseen") and not _made(step):
            out.append(step)
            continue
        file = in_tree(step)
        made = change(replace(step, before=held.get(file, step.before)))
        out += made
        held[file] = made[-1].after
    return out


def _made(step: Step) -> bool:
    return step.kind == "run" and step.before != step.after


def _blank(d: Draw, text: str | None) -> str:
    """The same ink: white space put in at some places, or taken out."""
    found = text or ""
    for _ in range(d.random.randint(1, 4)):
        place = d.random.randint(0, len(found))
        found = found[:place] + d.random.choice(["\n", "  ", "\t", " \r\n", "\u00a0", "\u200b"]) + found[place:]
    return found


def no_op(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    return _writes(steps, lambda s: [replace(s, after=s.before)])


def white_space(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    return _writes(steps, lambda s: [replace(s, after=_blank(d, s.before))])


def reverted(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    back = d.random.random() < 0.5
    return [
        *_writes(steps, lambda s: [s, replace(s, before=s.after, after=s.before)] if back else [s]),
        *([] if back else [replace(s, before=s.after, after=s.before) for s in reversed(steps) if s.before != s.after]),
    ]


def unrelated(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    twins = (f"/tmp/{d.path}", f"../{d.path}")  # called as what the goal is about, and outside
    return _writes(steps, lambda s: [Step("write", d.random.choice((*ASIDE, *twins)), before=None, after=d.texts[8])])


def failed_write(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    return _writes(steps, lambda s: [replace(s, kind="write", target=whole_path(s), ok=False)])


def rejected_write(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    ok = d.random.choice([False, None, True])
    return _writes(steps, lambda s: [replace(s, kind="write", target=whole_path(s), ok=ok, refused=True)])


def unobserved(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    blind = d.random.random() < 0.5
    return _writes(
        steps, lambda s: [replace(s, kind="write", target=whole_path(s), ok=True if blind else None, unknown=blind)]
    )


def whole_path(step: Step) -> str:
    """The file that a step is about: what a command wrote to stands in it after ``>``."""
    return step.target.split("> ", 1)[1].split(" ", 1)[0] if step.kind == "run" else step.target


def in_tree(step: Step) -> str:
    """That file as the tree has it."""
    return whole_path(step).removeprefix("/srv/tree/").removeprefix("./")


def rereading(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    few = d.reads(3)
    return [d.random.choice(few) for _ in range(d.random.randint(8, 30))]


def declared(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    return [step for step in steps if step.kind in ("read", "search")]


def dressed(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    return steps


def mixed(d: Draw, whole: Transcript, steps: list[Step]) -> list[Step]:
    return [*steps, d.random.choice([check(True), Step("run", f"{CHECK} || true"), Step("run", f"echo '{CHECK}'")])]


EDGES: dict[str, Mutation] = {
    "no-op write": no_op,
    "white space only": white_space,
    "touched and reverted": reverted,
    "unrelated file": unrelated,
    "failed write": failed_write,
    "rejected write": rejected_write,
    "write without an observed result": unobserved,
    "re-reading": rereading,
    "declared, not behaved": declared,
    "recovery dressed as authoring": dressed,
    "mixed evidence": mixed,
}


def gamed(d: Draw, whole: Transcript, edge: str) -> Transcript:
    """A converging transcript whose every closing turn only looks like one."""
    rounds = []
    for turn in whole.rounds:
        if not turn.closes:
            rounds.append(turn)
            continue
        steps = tuple(EDGES[edge](d, whole, list(turn.steps)))
        # a rule must not live on red checks alone: they may be silent, or one turns green by luck
        lucky = () if edge in ("recovery dressed as authoring", "declared, not behaved") else ((YES,), (MORE,))
        checks = d.random.choice([(), (NO,), *lucky])
        claims, verdict = (), None
        if edge == "declared, not behaved":
            claims = ("tests",)
            verdict = d.random.choice([None, ("already_done", "all tests pass"), ("cannot", "   ")])
        if edge == "mixed evidence":
            checks = d.random.choice(
                [
                    (NO, ("style", "no", True, False)),
                    (("tests", "unstable", True, False),),
                    (YES, ("style", "error", True, False)),
                ]
            )
        rounds.append(
            replace(turn, steps=steps, checks=checks, claims=claims, verdict=verdict, holds=False, closes=False)
        )
    found = replace(whole, name=f"{whole.name}: {edge}", edge=edge, rounds=tuple(rounds))
    if edge == "recovery dressed as authoring":
        output = d.path
        return replace(found, failed=("tests",), stage=whole.stage or (("docs/input0.md",), output, {}))
    return found


def fits(whole: Transcript, edge: str) -> bool:
    """Whether there is a write in the closing turn to be gamed, where the edge is about one."""
    writes = any(step.before != step.after for turn in whole.rounds if turn.closes for step in turn.steps)
    return writes or edge in ("re-reading", "declared, not behaved")


def generated(count: int, seed: int) -> Iterator[Transcript]:
    """``count`` transcripts, half of them converging, the other half each made of one of these."""
    draw = random.Random(seed)
    edges = list(EDGES)
    for number in range(count // 2):
        d = Draw(random.Random(draw.getrandbits(64)))
        whole = SHAPES[number % len(SHAPES)](d)
        yield whole
        if not any(turn.closes for turn in whole.rounds):
            whole = _reads_then_writes(d)
        first = (number // len(SHAPES) * 5 + number) % len(edges)
        edge = next(edge for edge in (*edges[first:], *edges[:first]) if fits(whole, edge))
        yield gamed(d, whole, edge)


def mutated(wholes: Iterable[Transcript], seed: int) -> Iterator[Transcript]:
    """One gaming transcript of each of these that closes something, by all edges in turn."""
    draw, edges = random.Random(seed), list(EDGES)
    for number, whole in enumerate(wholes):
        d = Draw(random.Random(draw.getrandbits(64)))
        closing = [step for turn in whole.rounds if turn.closes for step in turn.steps]
        d.path = next((in_tree(step) for step in closing if step.before != step.after), d.path)
        first = number % len(edges)
        edge = next((edge for edge in (*edges[first:], *edges[:first]) if fits(whole, edge)), None)
        if edge is not None and any(turn.closes for turn in whole.rounds):
            yield gamed(d, whole, edge)


def captured(folder: Path) -> Iterator[Transcript]:
    """The transcripts in a folder, ``*.jsonl``, by name. Raises `ValueError` that names file and line."""
    for file in sorted(folder.glob("*.jsonl")):
        yield _captured(file)


def _captured(file: Path) -> Transcript:
    head: dict[str, Any] | None = None
    steps: list[Step] = []
    rounds: list[Round] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            if head is None:
                head = found
            elif "turn" in found:
                turn = found["turn"]
                turn["checks"] = tuple(tuple(one) for one in turn.get("checks", ()))
                turn["claims"] = tuple(turn.get("claims", ()))
                turn["verdict"] = tuple(turn["verdict"]) if turn.get("verdict") else None
                rounds.append(Round(tuple(steps), **turn))
                steps = []
            else:
                steps.append(Step(**found))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{file.name}:{number}: {error}") from error
    if head is None or steps or not rounds:
        raise ValueError(f"{file.name}: it begins with a head, and every act is followed by the end of its turn")
    if head.get("stage"):
        inputs, output, aliases = head["stage"]
        head["stage"] = (tuple(inputs), output, aliases)
    head["failed"] = tuple(head.get("failed", ()))
    return Transcript(name=file.stem, rounds=tuple(rounds), **head)


def written(whole: Transcript) -> str:
    """A transcript as `captured` reads it; what is as it mostly is goes without saying."""
    lines = [told(whole, "name", "rounds")]
    for turn in whole.rounds:
        lines += map(told, turn.steps)
        lines.append(json.dumps({"turn": json.loads(told(turn, "steps"))}, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def told(of: Transcript | Round | Step, *but: str) -> str:
    """Its fields as JSON, without those that are what they mostly are; what is gamed is always said."""
    found, listed = asdict(of), [each for each in fields(of) if each.name not in but]
    names = [each.name for each in listed if each.name == "edge" or getattr(of, each.name) != usual(each)]
    return json.dumps({name: found[name] for name in names}, ensure_ascii=False)


def usual(one: Field[Any]) -> object:
    """What a field holds if nothing is said."""
    return one.default if one.default_factory is MISSING else one.default_factory()
