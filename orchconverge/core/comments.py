"""What is said on a pull request: who is heard, how bad it is, what can be settled at once, and when a round is the last.

Rules of words, states and paths decide, so that the same comments are taken the same way by everybody who reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

from orchconverge.core.checks import alike
from orchconverge.core.flags import flags, is_test, matches
from orchconverge.core.target import Criterion, Sha

Severity = Literal["critical", "blocking", "important", "style"]
Outcome = Literal["fixed", "already_there", "deferred", "acknowledged", "not_done"]

SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "blocking", "important", "style")
MEMBERS: Final = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Who is heard by what they are to the repository; a bot is heard by its name."""
BOTS: Final = (
    "copilot", "copilot-pull-request-reviewer", "github-code-quality", "github-advanced-security", "coderabbitai",
    "gemini-code-assist", "chatgpt-codex-connector", "claude", "cursor", "greptile-apps", "sourcery-ai", "qodo-merge-pro",
    "ellipsis-dev", "korbit-ai", "sonarqubecloud", "deepsource-io", "codacy-production",
)  # fmt: skip
"""The usual review bots, as their accounts are called without ``[bot]``; not the one of workflows, which repeats others."""
MOST_ITEMS: Final = 20
"""Comments that one mind gets, the worst first; the next round has the rest."""
LONGEST_SMALL: Final = 60
"""Characters of a comment that only thanks or agrees."""
LONGEST_LABEL: Final = 120
LEAST_WORDS: Final = 4
"""Words from which on two comments of one text are one, on whichever line."""

_MARKED: Final[tuple[tuple[Severity, re.Pattern[str]], ...]] = (
    ("style", re.compile(r"\b(?:nit(?:pick)?s?|style|typo|cosmetic|optional|non-?blocking|minor|p3)\b|🔵|🟢")),
    ("critical", re.compile(r"\b(?:critical|security|vulnerab\w+|p0)\b|🔴")),
    ("blocking", re.compile(r"\b(?:blocking|blocker|must|p1)\b|🟠")),
    ("important", re.compile(r"\b(?:important|major|bug|issue|todo|should|p2)\b|🟡")),
    ("style", re.compile(r"\bsuggestion\b")),
)
"""What the head of a comment, its label, means. A blocking that is not one is asked first."""
_GRAVE: Final = dict(_MARKED)["critical"]
"""What in the name of a check makes it critical."""
REPAIRABLE: Final = ("failure", "error", "timed_out")
"""How a check ends that a change of files may put right: not by being cancelled, expired, or in need of somebody."""
_SAID: Final[tuple[tuple[Severity, re.Pattern[str]], ...]] = (
    (
        "critical",
        re.compile(r"\b(?:vulnerab\w+|(?:sql|command|code) injection|data loss|leaks? (?:a |the )?secrets?)\b"),
    ),
    ("blocking", re.compile(r"\b(?:blocks? (?:the |this )?merge|must (?:not |be )|(?:breaks|broken|crash(?:es)?)\b)")),
)
"""What the words of the rest mean."""
_HEAD: Final = re.compile(r"[\W_]*(?:\[[^\]\n]{1,60}\]|\*\*[^*\n]{1,200}\*\*|[^:\n]{1,40}:(?!\S))")
_NOTHING: Final = re.compile(r"[\W_]*(?:praise|note|thought|thanks|fyi|walkthrough|summary)\b")
_SMALL: Final = re.compile(
    r"(?:(?:lgtm|thanks?|thank you|thx|nice|great|good|cool|perfect|agreed?|ok(?:ay)?|yes|done|fixed|ship it|approved?)\b"
    r"|\+1|👍|🎉|❤️)"
)
_PATH: Final = re.compile(
    r"(?<![\w/@.:-])(?:[\w.-]+/)*[\w-]*\.?[\w-]+\.[A-Za-z]\w{0,9}\b(?![/@(])|(?<!\w)[\w.-]+(?:/[\w.-]+)+"
)
_NO_PATH: Final = re.compile(r"\S{256,}|\b[a-z][a-z0-9+.-]*://\S+")
"""Words that are longer than any path, too: `_PATH` takes the square of a word's length."""
_SUGGESTED: Final = re.compile(r"^```suggestion[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LOCKFILES: Final = frozenset({
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock",
    "Cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "Gemfile.lock", "composer.lock", "go.sum",
    "mix.lock", "pubspec.lock", "Podfile.lock", "flake.lock", "packages.lock.json", "gradle.lockfile",
})  # fmt: skip


class Said(Struct, frozen=True, kw_only=True):
    """Something on a pull request. ``key`` is its name in our markers and unique there; a `check` is one that failed.

    ``mine``: this account said it. ``root`` is the comment that began its thread. ``asks``: its review requests changes;
    ``outdated``: what it is about has changed since; ``resolved``: somebody called its thread dealt with. A ``state`` is a
    review's, or how a check ended; ``about`` are the paths that a check remarks on.
    """

    key: str
    kind: Literal["inline", "general", "review", "check"]
    author: str
    body: str
    association: str = ""
    bot: bool = False
    mine: bool = False
    url: str = ""
    path: str = ""
    line: int | None = None
    root: int = 0
    state: str = ""
    asks: bool = False
    outdated: bool = False
    resolved: bool = False
    about: tuple[str, ...] = ()


class Item(Struct, frozen=True, kw_only=True):
    """A comment that asks for something, or a failed check. ``paths`` are those that it is about or names."""

    said: Said
    severity: Severity
    paths: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its name in markers, in the brief and in the answer."""
        return self.said.key

    @property
    def words(self) -> str:
        """The first of its words, without case and marks: an edit that changes none of them says the same."""
        return " ".join(re.findall(r"\w+", self.said.body.lower()))[:1000]

    @property
    def signature(self) -> tuple[str, ...]:
        """The same for two comments that say one thing of one file, and for two failures of a check with the same text."""
        if self.said.kind == "check":
            return ("check", alike(self.said.body))
        words = self.words
        where = () if words.count(" ") + 1 >= LEAST_WORDS else (str(self.said.line),)
        return (self.said.kind, self.said.path, *where, words)


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of a comment, and why in a sentence. ``commit`` is the one that has it."""

    outcome: Outcome
    reason: str
    commit: Sha | None = None


class Heard(Struct, frozen=True, kw_only=True):
    """What was said, sorted: items worst first, strangers as they came; the rest asks for nothing or is ours."""

    items: tuple[Item, ...]
    strangers: tuple[Said, ...]


# --- who is heard, and what is asked ---------------------------------------------------------------------------------


def may_ask(said: Said, bots: Iterable[str]) -> bool:
    """Whether what somebody says is acted on: a member's word, a named bot's, and a check's."""
    if said.kind == "check" or said.association in MEMBERS:
        return True
    name = said.author.lower().removesuffix("[bot]")
    return said.bot and name in {bot.lower().removesuffix("[bot]") for bot in bots}


def severity(said: Said) -> Severity | None:
    """How bad it is. ``None``: it asks for nothing.

    A label at its head counts first (``[critical]``, ``**Nit**``, ``issue (blocking):``), then words of weight, then that
    its review requests changes. A failed check is blocking, and critical if its name says so. What a person says without any
    of these is important; a bot that says something of the whole change without a label reports, and asks for nothing.
    """
    body = said.body.strip()
    if said.kind == "check":
        return "critical" if _GRAVE.search(body.lower().partition("\n")[0]) else "blocking"
    if not body or body.startswith("/") or said.state in ("approved", "dismissed"):
        return None
    text = body.lower()
    if len(text) <= LONGEST_SMALL and _SMALL.match(text):
        return None
    label = _label(said, text)
    if _NOTHING.match(label):
        return None
    for found, words in _MARKED:
        if words.search(label):
            return found
    for found, words in _SAID:
        if words.search(text):
            return found
    if said.asks:
        return "blocking"
    return None if said.bot and said.kind != "inline" else "important"


def _label(said: Said, text: str) -> str:
    """What stands at the head of a comment in brackets, bold or before a colon; of a bot all of its first line."""
    if said.bot:
        return text.partition("\n")[0][:LONGEST_LABEL]
    found = _HEAD.match(text) or re.match(r"[\W_]*", text)
    return found[0] if found is not None else ""


def heard(
    everything: Sequence[Said], *, bots: Iterable[str], answered: Iterable[str] = (), checks: Iterable[Item] = ()
) -> Heard:
    """Sort what was said. What we ``answered`` stays an item, whatever its author is by now; else what is resolved is none.

    So do ``checks`` that failed on an earlier commit and were put right by a later one.
    """
    known, names = frozenset(answered), tuple(bots)
    there = {said.key for said in everything}
    items = [item for item in checks if item.key not in there]
    strangers: list[Said] = []
    for said in everything:
        how = None if said.mine or (said.resolved and said.key not in known) else severity(said)
        if how is None:
            continue
        if said.key in known or may_ask(said, names):
            paths = said.about if said.kind == "check" else (said.path,) if said.path else named(said.body)
            items.append(Item(said=said, severity=how, paths=paths))
        else:
            strangers.append(said)
    items.sort(key=lambda item: SEVERITIES.index(item.severity))
    return Heard(items=tuple(items), strangers=tuple(strangers))


@lru_cache(maxsize=16)  # a target is asked for at each path of each comment
def named(text: str) -> tuple[str, ...]:
    """What in a text has the shape of a path, addresses left out; at most 20, each of 255 characters at most."""
    plain = _NO_PATH.sub(" ", text)
    return tuple(dict.fromkeys(path.removeprefix("./") for path in _PATH.findall(plain)))[:20]


# --- what is settled without a mind ----------------------------------------------------------------------------------


class Scope(Struct, frozen=True, kw_only=True):
    """What may be put right: the paths that the change touches, and those that its target names or lets change."""

    changed: frozenset[str]
    target: str
    criteria: tuple[Criterion, ...] = ()
    may_change: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        """Whether a path is part of what the pull request is for."""
        if path in self.changed or any(matches(path, glob) for glob in self.may_change):
            return True
        return not {path, path.rpartition("/")[2]}.isdisjoint(named(self.target))

    def grown(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The paths among those of a fix that lead out of it; a test is never too much."""
        return tuple(path for path in paths if not self.holds(path) and not is_test(path))


class _Only(Struct, frozen=True):
    """A change of these paths, for `flags`."""

    changed: tuple[str, ...]
    removed_lines: Mapping[str, int] = {}
    executable_changed: tuple[str, ...] = ()


def protected(paths: Sequence[str], scope: Scope) -> tuple[str, ...]:
    """Which of the paths are a person's, as ``kind: path``: what judges or commands, and what pins dependencies."""
    found = flags(_Only(changed=tuple(paths)), scope.criteria, scope.may_change)
    locks = (path for path in paths if path.rpartition("/")[2] in _LOCKFILES)
    free = (path for path in locks if not any(matches(path, glob) for glob in scope.may_change))
    return (*found, *(f"lockfile: {path}" for path in free))


def settled(item: Item, scope: Scope, files: Mapping[str, str], *, head: Sha) -> Verdict | None:
    """What is answered without a mind: for a person, out of scope, or already there. ``files`` hold its paths at ``head``."""
    said = item.said
    if said.kind == "check":
        return _for_a_person(item, scope)
    paths = (
        item.paths if said.path else tuple(path for path in item.paths if path in files or protected((path,), scope))
    )
    kept = protected(paths, scope)
    if kept:
        return Verdict(outcome="acknowledged", reason=f"{kept[0]} is for a person to change")
    outside = [path for path in paths if not scope.holds(path)]
    if paths and len(outside) == len(paths):
        reason = f"{outside[0]} is neither changed here nor named in the target, so it is for another pull request"
        return Verdict(outcome="deferred", reason=reason)
    if said.kind != "inline":
        return None
    text = files.get(said.path)
    if text is None:
        return Verdict(outcome="already_there", reason=f"{said.path} is no longer there at {head[:10]}")
    suggested = [part.strip() for part in _SUGGESTED.findall(said.body) if part.strip()]
    if suggested and all(part in text for part in suggested):
        return Verdict(outcome="already_there", reason=f"what is suggested stands there at {head[:10]}")
    if said.outdated or (said.line is not None and said.line > text.count("\n") + 1):
        reason = f"the line that this quotes is no longer there at {head[:10]}; if it still holds, say it on the line as it is"
        return Verdict(outcome="already_there", reason=reason)
    return None


def _for_a_person(check: Item, scope: Scope) -> Verdict | None:
    """What is answered of a failed check that no mind is asked about. It may fail in a file that the change has not."""
    how = check.said.state
    if how and how not in REPAIRABLE:
        reason = f"it ended as {how.replace('_', ' ')}, which no change of a file puts right"
        return Verdict(outcome="acknowledged", reason=reason)
    kept = [found[0] for path in check.paths if (found := protected((path,), scope))]
    if kept and len(kept) == len(check.paths):
        return Verdict(outcome="acknowledged", reason=f"{kept[0]} is for a person to change")
    return None


def repeated(item: Item, before: Iterable[tuple[Item, Verdict | None]]) -> Verdict | None:
    """What is answered to a comment that says once more what another one said, which is settled; else ``None``.

    A check that fails once more as it did was not put right, whatever was said of it.
    """
    said = item.signature
    for other, verdict in before:
        if verdict is None or other.key == item.key or other.signature != said:
            continue
        if item.said.kind == "check":
            tried = f" after {verdict.commit[:10]}" if verdict.commit else ""
            return Verdict(outcome="not_done", reason=f"it fails with the same words as before{tried}")
        where = f"said before, {other.said.url or other.key}"
        if verdict.outcome in ("fixed", "already_there"):
            return Verdict(outcome="already_there", reason=where, commit=verdict.commit)
        return Verdict(outcome="acknowledged", reason=f"{where}: {verdict.outcome.replace('_', ' ')}")
    return None


# --- when it is over -------------------------------------------------------------------------------------------------


def brake(todo: Sequence[Item], *, rounds: int, most: int, tried: Iterable[tuple[str, ...]], repeats: bool) -> str:
    """Why no round follows after so many ``rounds``; empty if one does.

    ``tried`` are the signatures of what minds had before, ``repeats``: what came since the last one was said before.
    """
    before = frozenset(tried)
    if not todo:
        return "findings repeat" if repeats else "no new actionable comment"
    if all(item.signature in before for item in todo):
        return "findings repeat"
    if rounds >= most:
        return f"{most} rounds" if most != 1 else "1 round"
    return ""


def once(items: Iterable[Item]) -> list[Item]:
    """The items without those that say what one before them says: they get its outcome."""
    found: dict[tuple[str, ...], Item] = {}
    for item in items:
        found.setdefault(item.signature, item)
    return list(found.values())


def coverage(items: Iterable[Item], verdicts: Mapping[str, Verdict]) -> Mapping[Severity, tuple[int, int]]:
    """Severity -> how many of its comments have an outcome, and how many there are; those without any left out."""
    found: dict[Severity, tuple[int, int]] = {}
    for item in items:
        done, all_ = found.get(item.severity, (0, 0))
        found[item.severity] = (done + (item.key in verdicts), all_ + 1)
    return {name: found[name] for name in SEVERITIES if name in found}
