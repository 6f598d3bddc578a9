"""A review as text: the summary and the remarks that are posted, what a result says of it in a line, what a mind is told."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from orchconverge.core.reviewing import MOST_TEXT, MOST_TITLE, SEVERITIES, Placed, Verdict
from orchconverge.core.secrets import masked
from orchconverge.core.target import Sha
from orchconverge.core.views.markdown import code, prose
from orchconverge.core.views.text import clean

MOST_UNPLACED: Final = 48 << 10
"""Characters of findings in a summary: GitHub takes a review of 65536."""
MEANS: Final[Mapping[Verdict, str]] = {
    "PASS": "nothing that stands in the way",
    "MIXED": "to be put right, and nothing critical",
    "REWORK": "not to be merged like this",
}


def figures(kept: Sequence[Placed]) -> str:
    """How many findings of each severity."""
    counts = [(sum(one.finding.severity == severity for one in kept), severity) for severity in SEVERITIES]
    return ", ".join(f"{number} {severity}" for number, severity in counts)


def left_out(dropped: Mapping[str, int]) -> str:
    """How many findings were dropped, and why; empty if none were."""
    if not dropped:
        return ""
    return (
        f"{sum(dropped.values())} dropped ({', '.join(f'{number} {why}' for why, number in sorted(dropped.items()))})"
    )


def outcome(verdict: Verdict, kept: Sequence[Placed], dropped: Mapping[str, int], failed: Mapping[str, str]) -> str:
    """The whole review in a line."""
    parts = [f"{verdict}: {figures(kept)}", left_out(dropped)]
    parts += [f"{track} gave no review: {clean(why, MOST_TITLE)}" for track, why in failed.items()]
    return "; ".join(filter(None, parts))


def remark(one: Placed) -> str:
    """What is said on a line, Markdown: words of a mind that stay words."""
    found = one.finding
    lines = [f"**{found.severity}**: {_words(found.title, MOST_TITLE)}"]
    text = [_words(line, MOST_TEXT) for line in found.text[:MOST_TEXT].splitlines()]
    cause = found.causal
    if not one.touched and cause is not None:
        text.append(f"Because of {code(f'{cause.path}:{cause.line}', most=200)}, which this changes.")
    return "\n".join([*lines, *(["", *text] if any(text) else []), "", f"({one.track}, score {one.score})"])


def markers(key: str, kept: Sequence[Placed]) -> Mapping[str, Placed]:
    """What tells each remark from every other one, and is the same when it is found again, on whichever line."""
    found: dict[str, Placed] = {}
    for one in kept:
        told = "\0".join((one.finding.path, " ".join(one.finding.title.lower().split())))
        marker = f"review.{key}.{hashlib.sha256(told.encode('utf-8', 'replace')).hexdigest()[:12]}"
        again = sum(each.startswith(marker) for each in found)
        found[f"{marker}.{again + 1}" if again else marker] = one
    return found


def summary(
    verdict: Verdict,
    kept: Sequence[Placed],
    *,
    head: Sha,
    dropped: Mapping[str, int],
    failed: Mapping[str, str],
    unplaced: Sequence[Placed] = (),
) -> str:
    """The body of the review, Markdown. ``unplaced`` are findings that could not be put on their line."""
    lines = [f"**{verdict}**: {MEANS[verdict]}", "", f"Reviewed: {head[:12]}. {figures(kept)}."]
    lines += [f"{left_out(dropped)}."] if dropped else []
    lines += [f"No review of {track}: {_words(why, MOST_TITLE)}" for track, why in failed.items()]
    room = MOST_UNPLACED
    for number, one in enumerate(unplaced):
        told = ["", f"{code(f'{one.finding.path}:{one.finding.line}', most=300)}", "", remark(one)]
        room -= sum(map(len, told))
        if room < 0:
            lines += ["", f"And {len(unplaced) - number} more."]
            break
        lines += told
    lines += ["", "Findings are from agents, scored by another one, and not checked by a person."]
    return "\n".join(lines)


def against(kept: Sequence[Placed]) -> str:
    """What the next mind is told of findings, and what the ledger has as evidence: text of others, one block."""
    lines: list[str] = []
    for one in kept:
        found = one.finding
        lines.append(f"{clean(found.path)}:{found.line} {found.severity}: {masked(clean(found.title, MOST_TITLE))}")
        lines += [
            f"    {masked(line)}" for line in clean(found.text[:MOST_TEXT], keep="\n").splitlines() if line.strip()
        ]
    return "\n".join(lines)


def _words(text: str, most: int) -> str:
    return prose(masked(text), most=most)
