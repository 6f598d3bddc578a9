"""The pull request as text: title, body and labels, from the ledger and what git says changed."""

from __future__ import annotations

import re
from typing import Final

from orchconverge.core.judge import met
from orchconverge.core.seen import Work
from orchconverge.core.state import Basin
from orchconverge.core.views.text import clean

TYPES: Final = (
    ("type: bug", re.compile(r"\b(fix|bug|fail|failing|broken|crash|regression|error)", re.IGNORECASE)),
    ("type: documentation", re.compile(r"\b(document|docs|readme|guide)", re.IGNORECASE)),
    ("type: improvement", re.compile(r"\b(refactor|improve|clean|speed|moderni[sz]e|simplif)", re.IGNORECASE)),
)
SIZES: Final = ((100, "size: small"), (500, "size: medium"), (1000, "size: large"))


def title(basin: Basin) -> str:
    """One line, at most 72 cells."""
    return clean(basin.title, 72)


def labels(basin: Basin, work: Work) -> tuple[str, ...]:
    """What kind of change it is by the goal's words, and how large by paths and deleted lines."""
    kind = next((label for label, words in TYPES if words.search(basin.goal[:2000])), "type: feature")
    extent = 20 * len(work.changed) + sum(work.removed_lines.values())
    size = next((label for most, label in SIZES if extent < most), "size: epic")
    return kind, size


def body(basin: Basin, work: Work) -> str:
    """Markdown: the target, its criteria with evidence, what changed, what was learned."""
    results = basin.tip.results if basin.tip is not None else {}
    lines = [_safe(basin.macrostate, 2000), "", "| criterion | met | evidence |", "|---|---|---|"]
    for criterion in basin.criteria:
        found = results.get(criterion.name)
        state = "yes" if met(results, criterion.name) else "no" if found is not None else "not run here"
        evidence = f"exit {found.exit}, {found.digest[:12]}" if found is not None and found.digest else ""
        lines.append(f"| {criterion.name} | {state} | {evidence} |")
    lines += ["", f"Files changed: {len(work.changed)}"]
    lines += [f"- {_safe(path, 200)}" for path in work.changed[:20]]
    if len(work.changed) > 20:
        lines.append(f"- and {len(work.changed) - 20} more")
    lines += ["", "Commits:", *(f"- {commit.sha[:10]} {_safe(commit.subject, 100)}" for commit in work.commits[:10])]
    if basin.residue:
        learned = dict.fromkeys(_safe(item.text, 300) for item in basin.residue)
        lines += ["", "Learned:", *(f"- {text}" for text in list(learned)[-10:])]
    return "\n".join([*lines, "", f"Attempts: {len(basin.history)}. Every criterion was run by orchconverge.", ""])


def _safe(text: str, cells: int) -> str:
    """Untrusted text that can start no table, link, tag or mention."""
    return re.sub(r"([\\`*_{}\[\]<>#|!@])", r"\\\1", clean(text, cells))
