"""The pull request as text: title, description and labels, from the ledger and what git says changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from orchconverge.core.judge import met
from orchconverge.core.overlap import Change
from orchconverge.core.seen import Work
from orchconverge.core.state import Basin
from orchconverge.core.views.markdown import code, prose, table
from orchconverge.core.views.text import clean, counted

BEGIN: Final = "<!-- orchconverge:description -->"
END: Final = "<!-- /orchconverge:description -->"
"""Between these the description is ours; what a person writes around them stays."""
OUTDATED: Final = 0.2
"""By how much of the number of files a description may be wrong before it is called outdated."""
MOST_ROWS: Final = 100
"""A description holds 65,536 characters, and a person's own stand there too."""
_ASKED_LATER: Final = {"pr": "this one", "ci": "see the checks", "review": "see the review"}
"""Kind of a criterion of the chain -> what a description can say of it, which is written before it is asked."""
_FILES: Final = re.compile(r"^Files changed: (\d+) ", re.MULTILINE)

WORDS: Final = (
    ("type: bug", re.compile(r"\b(fix|bug|fail|failing|broken|crash|regression|error)", re.IGNORECASE)),
    ("type: documentation", re.compile(r"\b(document|docs|readme|guide)", re.IGNORECASE)),
    ("type: improvement", re.compile(r"\b(refactor|improve|clean|speed|moderni[sz]e|simplif)", re.IGNORECASE)),
)
PATHS: Final = (
    ("type: documentation", re.compile(r"(^|/)docs?/|\.(md|rst|adoc|txt)$", re.IGNORECASE)),
    (
        "type: testing",
        re.compile(r"(^|/)(tests?|spec|__tests__)/|(^|/)test_[^/]*$|[._](test|spec)\.\w+$", re.IGNORECASE),
    ),
    (
        "type: infrastructure",
        re.compile(
            r"^\.(github|gitlab|ci|circleci)\b|(^|/)(Dockerfile|Makefile|Jenkinsfile)|\.(tf|ya?ml)$", re.IGNORECASE
        ),
    ),
)
"""What a change is called if more than 70 % of its files are such."""
MOSTLY: Final = 0.7
PRIORITIES: Final = (
    ("priority: critical", re.compile(r"\b(security|vulnerab|cve-|data loss|outage|critical)", re.IGNORECASE)),
    ("priority: high", re.compile(r"\b(urgent|regression|crash|broken|hotfix|blocker)", re.IGNORECASE)),
)
SIZES: Final = ((100, "size: small"), (500, "size: medium"), (1000, "size: large"))
"""Changed lines: fewer than so many."""
FRONT: Final = re.compile(
    r"\.(jsx?|tsx?|mjs|vue|svelte|css|s[ac]ss|less|html?)$|(^|/)(frontend|web|ui)/", re.IGNORECASE
)
BACK: Final = re.compile(
    r"\.(py|go|rs|java|kt|rb|php|cs|c|cc|cpp|h|hpp|ex|exs|scala|sql)$|(^|/)(backend|server|api)/", re.IGNORECASE
)
DERIVED: Final = ("size: ", "scope: ")
"""Groups of labels that follow what changed: ours replaces another of its group. In others a person's choice stays."""


def title(basin: Basin) -> str:
    """One line, at most 72 cells."""
    return clean(basin.title, 72)


# --- labels ----------------------------------------------------------------------------------------------------------


def labels(basin: Basin, changes: Sequence[Change]) -> tuple[str, ...]:
    """Type, size, scope and priority: by the words of the goal, and by paths and lines of what changed."""
    goal, paths = basin.goal[:2000], [change.path for change in changes]
    kind = next((label for label, form in PATHS if _share(paths, form) > MOSTLY), "")
    kind = kind or next((label for label, words in WORDS if words.search(goal)), "type: feature")
    lines = sum((change.added or 0) + (change.removed or 0) for change in changes)
    size = next((label for most, label in SIZES if lines < most), "size: epic")
    front, back = _share(paths, FRONT), _share(paths, BACK)
    scope = "fullstack" if min(front, back) >= 0.25 else "frontend" if front > 0.5 else "backend" if back > 0.5 else ""
    priority = next((label for label, words in PRIORITIES if words.search(goal)), "priority: normal")
    return tuple(label for label in (kind, size, scope and f"scope: {scope}", priority) if label)


def _share(paths: Sequence[str], form: re.Pattern[str]) -> float:
    return sum(form.search(path) is not None for path in paths) / len(paths) if paths else 0.0


def relabelled(there: Sequence[str], wanted: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to put on and what to take off, so that each group of ours has one label."""
    add, remove = [], []
    for label in wanted:
        group = label.partition(" ")[0] + " "
        others = [each for each in there if each.startswith(group) and each != label]
        if label in there or (others and group not in DERIVED):
            remove += others if group in DERIVED else []
            continue
        add.append(label)
        remove += others
    return tuple(add), tuple(remove)


# --- description -----------------------------------------------------------------------------------------------------


def body(basin: Basin, work: Work, changes: Sequence[Change], *, unjudged: int = 0) -> str:
    """Markdown between its markers: target, criteria with evidence, attempts, what was learned, how to reproduce it.

    ``unjudged`` commits of ``work`` were put on top by a person and not checked by us.
    """
    results = basin.tip.results if basin.tip is not None else {}
    rows = []
    for criterion in basin.criteria[:MOST_ROWS]:
        found = results.get(criterion.name)
        unasked = _ASKED_LATER.get(criterion.kind, "not run here")
        state = "yes" if met(results, criterion.name) else "no" if found is not None else unasked
        evidence = f"exit {found.exit}, {found.digest[:12]}" if found is not None and found.digest else ""
        rows.append((criterion.name, state, code(criterion.command, most=100) or criterion.kind, evidence))
    sections = [
        [prose(basin.macrostate, most=2000)],
        [*table(("criterion", "met", "checked by", "evidence"), rows), *_more(len(basin.criteria) - MOST_ROWS)],
        _attempts(basin),
        _changed(work, changes),
        _learned(basin),
        _reproduced(basin, work),
        [
            "Every criterion was run by orchconverge, none is a claim of an agent. The evidence is kept under its digest."
        ],
    ]
    if unjudged:
        sections.insert(2, [f"**{counted(unjudged, 'commit')} on top of what was checked: asked for by a person.**"])
    inside = "\n\n".join("\n".join(lines) for lines in sections if lines)
    return f"{BEGIN}\n\n{inside.replace('<!--', '&lt;!--')}\n\n{END}"  # a file's name must not be able to end our part


def body_of_branch(work: Work, changes: Sequence[Change]) -> str:
    """Markdown between its markers for a branch that was never a destination: what git says of it, and no more."""
    unchecked = "Described from its commits. orchconverge checked nothing of it: no destination was written down here."
    inside = "\n".join([*_changed(work, changes), *_more(len(work.commits) - 10), "", unchecked])
    return f"{BEGIN}\n\n{inside.replace('<!--', '&lt;!--')}\n\n{END}"


def _attempts(basin: Basin) -> list[str]:
    rows = [
        (str(past.number), prose(past.approach, most=40), past.result.replace("_", " "), prose(past.text, most=80))
        for past in basin.history[-10:]
    ]
    head = f"### Attempts: {len(basin.history)}"
    return [head, "", *table(("attempt", "approach", "result", "what came of it"), rows)] if rows else [head]


def _changed(work: Work, changes: Sequence[Change]) -> list[str]:
    added, removed = (sum(each or 0 for each in column) for column in _columns(changes))
    largest = sorted(changes, key=lambda change: -((change.added or 0) + (change.removed or 0)))
    lines = ["### Changes", "", f"Files changed: {len(changes)} (+{added} -{removed})", ""]
    lines += [f"- {code(change.path, most=200)} {_lines(change)}" for change in largest[:5]]
    lines += _more(len(largest) - 5)
    lines += ["", f"Commits: {len(work.commits)}", ""] if work.commits else []
    return lines + [f"- {commit.sha[:10]} {prose(commit.subject, most=100)}" for commit in work.commits[:10]]


def _more(count: int) -> list[str]:
    return ["", f"And {count} more."] if count > 0 else []


def _columns(changes: Sequence[Change]) -> tuple[list[int | None], list[int | None]]:
    return [change.added for change in changes], [change.removed for change in changes]


def _lines(change: Change) -> str:
    return "binary" if change.added is None else f"+{change.added} -{change.removed}"


def _learned(basin: Basin) -> list[str]:
    learned = list(dict.fromkeys(prose(item.text, most=300) for item in basin.residue))[-10:]
    return ["### Learned", "", *(f"- {text}" for text in learned)] if learned else []


def _reproduced(basin: Basin, work: Work) -> list[str]:
    """Commands in code spans, as a criterion is a person's own text: a fence of ours could be ended by it."""
    steps = [f"git checkout --detach {work.head[:12]}", *(c.command for c in basin.criteria if c.command)]
    return ["### Reproduce", "", *(f"{number}. {code(step, most=500)}" for number, step in enumerate(steps[:20], 1))]


def described(there: str, ours: str) -> str:
    """A description with our part in it, in place of the one it had; below what a person wrote, if it had none."""
    begin, end = _ours(there)
    if begin < 0:
        return f"{there.rstrip()}\n\n{ours}" if there.strip() else ours
    return there[:begin] + ours + there[end:]


def outdated(there: str, now: int) -> str:
    """Why a description no longer tells what is there, for ``now`` changed files; empty if it does."""
    begin, end = _ours(there)
    said = _FILES.search(there[begin:end]) if begin >= 0 else None
    if said is None:
        return "the description does not say what changed"
    files = int(said[1])
    if abs(files - now) > OUTDATED * max(files, 1):
        return f"the description speaks of {counted(files, 'file')}, {now} changed"
    return ""


def _ours(there: str) -> tuple[int, int]:
    """Where our part is: the last whole one. (-1, -1) if there is none."""
    last = there.rfind(END)
    begin = there.rfind(BEGIN, 0, last) if last >= 0 else -1
    return (begin, last + len(END)) if begin >= 0 else (-1, -1)
