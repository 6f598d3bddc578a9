"""What happens in one simulated run, drawn from a seed: the target, the limits, the people, the weather."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from msgspec.structs import replace

from orchconverge.core.target import Criterion
from orchconverge.core.values import Limits, Place, Settings

HOUR = 3600.0
MINDS = {
    "gain": 8, "gain all": 3, "noise": 3, "empty": 1, "none": 2, "verdict": 2, "quota": 2, "quota unknown": 1, "crash": 2,
    "gain and crash": 2, "hang": 1, "gain and hang": 1, "deaf": 1, "regress": 2, "flagged": 1, "leftovers": 2, "shared": 2,
    "elsewhere": 1, "detached": 1, "context lost": 1, "tamper": 1, "garbage": 1, "question": 1, "deleted test": 1,
}  # fmt: skip
"""What a mind does, and how often."""
WEATHER = (
    "commit", "commit", "break", "fix", "shared", "switch", "dirty", "merging", "stop", "signal", "kill",
    "tmux dies", "tmux hangs", "lose", "lose check", "end mind", "disk full", "disk low", "memory low",
    "jump", "jump back", "suspend", "tamper", "branch gone",
)  # fmt: skip


WAVE_MINDS = {
    "gain": 5, "gain all": 2, "each": 6, "at once": 4, "each and shared": 4, "at once and shared": 3, "in steps": 2,
    "each and break": 3, "at once and break": 2, "noise": 2, "none": 1, "verdict": 2, "quota": 1, "crash": 1,
    "gain and crash": 1, "hang": 1, "gain and hang": 2, "deaf": 1, "regress": 1, "flagged": 2, "leftovers": 2, "shared": 1,
    "detached": 1, "tamper": 1, "garbage": 1, "question": 1, "deleted test": 1,
}  # fmt: skip
"""The same of a mind among others: one commit a criterion or one for all, rivals in `shared.txt`, breaks beside gains."""
WAVE_WEATHER = (
    *WEATHER, "prune running", "prune running", "prune waiting", "merge by hand", "merge by hand", "commit", "shared", "kill",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Chances of a fault at one call of a port; ``overtaken`` is that of a person's commit right after a proposal."""

    crash: float = 0.0
    failed: float = 0.0
    unknown: float = 0.0
    lost_start: float = 0.0
    slow: float = 0.0
    torn: float = 0.0
    flaky: float = 0.0
    hang: float = 0.0
    setup: float = 0.0
    overtaken: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Story:
    """One run, or two ``beside`` each other. ``minds`` gives each branch its behaviour in turn, then it is by chance.

    ``weather`` is (seconds, what). With ``rivals`` two minds seldom write the same into a file. ``patience``: seconds after
    which a person stops a run that waits for a person.
    """

    seed: int
    place: Place
    criteria: tuple[Criterion, ...]
    files: dict[str, str]
    settings: Settings
    limits: Limits
    rates: Rates = Rates()
    minds: tuple[str, ...] = ()
    weather: tuple[tuple[float, str], ...] = ()
    resumes: int = 0
    target_checked_out: bool = True
    remote: bool = True
    fresh_differs: bool = False
    repertoire: Mapping[str, int] = field(default_factory=lambda: MINDS)
    rivals: bool = False
    beside: bool = False
    declared: Literal["auto", "person"] = "auto"
    patience: float = 1800.0

    @property
    def lock(self) -> str:
        """Who admits: as the target was declared, unless the run says otherwise."""
        return self.settings.lock or self.declared


def holds(name: str, *, deadline: float = 60.0, required: bool = True) -> Criterion:
    """A criterion that holds where the file of its name says yes."""
    return Criterion(name=name, command=f"holds {name}", deadline=deadline, required=required)


def pair(name: str) -> Criterion:
    """A criterion that holds where two files say yes."""
    return Criterion(name=name, command=f"pair {name}", deadline=60.0)


TESTS = Criterion(name="tests", kind="tests", command="run-all", deadline=60.0)
"""Holds where no file below ``t-`` is red; it has the ids of those that are green."""


def settings(place: Place, **changes: object) -> Settings:
    """Settings of a simulated run."""
    given: dict[str, object] = {
        "checkout": "/virtual/project",
        "place": place,
        "engines": ("sim",),
        "interval": 60.0,
        "attemptSeconds": 300.0,
        "chain": ("pushl", "report"),
        "onto": "main",
        **changes,
    }
    return Settings(**given)  # type: ignore[arg-type]


def plain(place: Place, *, minds: tuple[str, ...] = ("gain", "gain"), **changes: object) -> Story:
    """A story without any fault: two criteria, of which each mind meets one more."""
    given: dict[str, object] = {
        "seed": 0,
        "place": place,
        "criteria": (holds("c1"), holds("c2")),
        "files": {"shared.txt": "start"},
        "settings": settings(place),
        "limits": Limits(attempts=5, hours=3.0),
        "minds": minds,
        **changes,
    }
    return Story(**given)  # type: ignore[arg-type]


def drawn(seed: int) -> Story:
    """The story of a seed. Of each kind of fault most runs have none, some have a lot."""
    r = Random(f"story {seed}")
    place: Literal["here", "fresh"] = r.choice(("here", "fresh"))
    number = r.randint(1, 4)
    criteria = [holds(f"c{n}", required=n == 1 or r.random() < 0.9) for n in range(1, number + 1)]
    files = {"shared.txt": "start", "README": "read"}
    if r.random() < 0.3:
        criteria.append(TESTS)
        files |= {"t-1": "green", "t-2": r.choice(("green", "red"))}
    if r.random() < 0.3:
        criteria.append(Criterion(name="changed", kind="changed"))
    if r.random() < 0.3:
        criteria.append(Criterion(name="mergeable", kind="mergeable"))
    if r.random() < 0.2:
        criteria.append(Criterion(name="docs", kind="docs", paths=("note-*",), required=False))
    for n in range(1, number + 1):
        if r.random() < (0.15 if number > 1 else 0.05):
            files[f"c{n}.txt"] = "yes"

    def sometimes(most: float, chance: float = 0.35) -> float:
        return r.random() * most if r.random() < chance else 0.0

    rates = Rates(
        crash=sometimes(0.02, 0.5),
        failed=sometimes(0.06),
        unknown=sometimes(0.3),
        lost_start=sometimes(0.3),
        slow=sometimes(0.1, 0.5),
        torn=sometimes(0.05),
        flaky=sometimes(0.4),
        hang=sometimes(0.15),
        setup=sometimes(0.5),
    )
    weather = tuple(
        (r.random() * r.choice((300.0, 1500.0)), r.choice(WEATHER)) for _ in range(r.choice((0, 1, 2, 3, 5, 8)))
    )
    hours = r.choice((None, None, 0.05, 0.2, 1.0))
    attempts = r.choice((1, 2, 3, 4, 6, 9)) if hours is None or r.random() < 0.7 else None
    chosen = settings(
        place,
        interval=r.choice((0.0, 5.0, 60.0, 300.0)),
        engines=r.choice((("sim",), ("sim",), ("sim", "other:large"))),
        chain=r.choice((("pushl", "report"), ("pushl", "reviewdeep", "copilot", "report"), ("report",), ())),
        setup=r.choice(("", "", "install")),
        stallAfter=r.choice((1, 2, 3)),
        attemptSeconds=r.choice((60.0, 300.0)),
    )
    late = Random(f"widths and blocks {seed}")
    return Story(
        seed=seed,
        place=place,
        criteria=tuple(criteria),
        files=files,
        settings=replace(chosen, widen=late.choice(("stall", "stall", "f4", "2"))),
        patience=late.choice((1800.0, 9000.0)),
        minds=("same verdict",) * 3 if late.random() < 0.1 else (),
        limits=Limits(
            attempts=attempts,
            hours=hours,
            minds=r.choice((None, None, None, 3)),
            tokens=r.choice((None, None, None, 2000)),
        ),
        rates=rates,
        weather=weather,
        resumes=r.choice((0, 0, 1, 2)),
        target_checked_out=place == "here" or r.random() < 0.4,
        remote=r.random() < 0.7,
        fresh_differs=r.random() < 0.1,
    )


def drawn_wave(seed: int) -> Story:
    """The story of a seed with several minds at once: widths, the room that they have, who decides, what people do meanwhile."""
    r = Random(f"wave {seed}")
    number = r.randint(2, 6)
    criteria = [
        pair(f"c{n}") if r.random() < 0.2 else holds(f"c{n}", required=n == 1 or r.random() < 0.9)
        for n in range(1, number + 1)
    ]
    files = {"shared.txt": "start", "README": "read"}
    if r.random() < 0.25:
        criteria.append(TESTS)
        files |= {"t-1": "green", "t-2": r.choice(("green", "red"))}
    criteria += [Criterion(name=kind, kind=kind) for kind in ("changed", "mergeable") if r.random() < 0.2]  # type: ignore[arg-type]
    for n in range(1, number + 1):
        if r.random() < 0.15:
            files[f"c{n}.txt"] = "yes"

    def sometimes(most: float, chance: float = 0.25) -> float:
        return r.random() * most if r.random() < chance else 0.0

    rates = Rates(
        crash=sometimes(0.01, 0.4),
        failed=sometimes(0.04),
        unknown=sometimes(0.3),
        lost_start=sometimes(0.3),
        slow=sometimes(0.1, 0.4),
        torn=sometimes(0.03),
        flaky=sometimes(0.3),
        hang=sometimes(0.1),
        setup=sometimes(0.3, 0.15),
        overtaken=sometimes(1.0, 0.3),
    )
    weather = tuple(
        (r.random() * r.choice((200.0, 900.0)), r.choice(WAVE_WEATHER)) for _ in range(r.choice((0, 1, 2, 3, 5)))
    )
    declared = r.choice(("auto", "auto", "person"))
    lock = r.choice((None, None, None, "auto", "person"))
    chosen = settings(
        "fresh",
        minds=r.choice((1, 2, 3, 3, 4, 5)),
        widen=r.choice(("stall", "stall", "f4", "2")),
        maxMinds=r.choice((1, 2, 3, 5, 8, 8)),
        lock=lock,
        loop=r.random() < 0.85,
        harvestTries=r.choice((12, 12, 3, 1)),
        harvestMinutes=r.choice((10.0, 10.0, 0.5)),
        interval=r.choice((0.0, 5.0, 60.0)),
        engines=r.choice((("sim",), ("sim",), ("sim", "other:large"))),
        chain=r.choice((("pushl", "report"), ("report",), ())),
        setup=r.choice(("", "", "install")),
        stallAfter=r.choice((1, 2, 3)),
        attemptSeconds=r.choice((60.0, 300.0)),
    )
    hours = r.choice((None, None, 0.1, 0.5))
    return Story(
        seed=seed,
        place="fresh",
        criteria=tuple(criteria),
        files=files,
        settings=chosen,
        limits=Limits(
            attempts=r.choice((1, 2, 3, 5)),
            hours=hours,
            minds=r.choice((None, None, 2, 7)),
            usd=r.choice((None, None, None, 0.05)),
        ),
        rates=rates,
        weather=weather,
        resumes=r.choice((0, 1, 1, 2)) + ((lock or declared) == "person"),
        target_checked_out=r.random() < 0.4,
        remote=r.random() < 0.7,
        fresh_differs=r.random() < 0.05,
        repertoire=WAVE_MINDS,
        rivals=r.random() < 0.5,
        beside=r.random() < 0.25,
        declared=declared,
    )
