"""The graph of sessions, drawn as a version history is: on a terminal, and as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from orchconverge.core.pursuits import Graph, Pursuit, Stands
from orchconverge.core.views.lines import BOLD, DIM, GREEN, TAG, Look, Piece, drawn, spread, wrapped
from orchconverge.core.views.report_charts import label
from orchconverge.core.views.text import cells, clean, clip, counted, duration, tokens
from orchconverge.core.views.timeline import NAME, needs

SIGNS: Final[dict[Stands, tuple[str, str, str]]] = {
    "open": ("○", "o", "open"),
    "needs you": ("◆", "!", "needs you"),
    "met": ("●", "*", "ended: met"),
    "abandoned": ("✕", "x", "ended: abandoned"),
    "lost": ("?", "?", "lost"),
}
"""How a session is drawn, also without UTF-8, and what it is called."""
FOLD: Final = "~"
ROOMY: Final = 100
"""From so many cells on, the second line of a session stands below its goal, else below its name."""
SHAPES: Final[dict[Stands, tuple[str, str]]] = {
    "open": ("(", ")"),
    "needs you": ("[[", "]]"),
    "met": ("([", "])"),
    "abandoned": ("[/", "/]"),
    "lost": ("[", "]"),
}
"""The outline of a session in Mermaid."""
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_JOINTS: Final = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"
"""The line that goes in these directions."""
_TWINS: Final = str.maketrans(_JOINTS, " |||-'.|-'.|-++|")
_WORDS: Final = 18
"""Cells for how a session stands."""
_STYLES: Final[dict[Stands, str]] = {"met": GREEN, "needs you": TAG}


class Node(NamedTuple):
    """The lanes beside one session, or `FOLD`: the lines ``above`` it, where its sign stands (``at``), ``below`` and on.

    ``above`` joins the lanes of those that began from it, ``below`` leads to what it began from, ``after`` only goes on.
    """

    name: str
    above: str
    line: str
    at: int
    below: str
    after: str


# --- lanes -----------------------------------------------------------------------------------------------------------


class _Lanes:
    """Lanes from children down to their parents, side by side. A lane holds the name that it comes to, or nothing."""

    def __init__(self) -> None:
        self.wait: list[str] = []

    def node(self, name: str, parents: Sequence[str]) -> Node:
        """The next node from above."""
        mine = [place for place, waited in enumerate(self.wait) if waited == name]
        before = self._alive()
        at = mine[0] if mine else self._free()
        for place in mine[1:]:
            self.wait[place] = ""
        above = _line(before, self._alive(), [(at, place) for place in mine[1:]])
        self.wait[at] = name
        line = _line(self._alive(), self._alive(), ())
        self.wait[at] = ""
        own, *others = [*dict.fromkeys(parents)] or [""]
        begun = self._alive() | ({at} if own else set())
        self.wait[at] = own
        targets = []
        for parent in others:
            place = self.wait.index(parent) if parent in self.wait else self._free()
            self.wait[place] = parent
            targets.append((at, place))
        below = _line(begun, self._alive(), targets)
        while self.wait and not self.wait[-1]:
            self.wait.pop()
        return Node(name, above, line, 2 * at, below, _line(self._alive(), self._alive(), ()))

    def _free(self) -> int:
        if "" in self.wait:
            return self.wait.index("")
        self.wait.append("")
        return len(self.wait) - 1

    def _alive(self) -> set[int]:
        return {place for place, name in enumerate(self.wait) if name}


def _line(above: set[int], below: set[int], across: Sequence[tuple[int, int]]) -> str:
    """Lanes that come from above and go on below, two cells each, and lines across from one of them to another.

    A lane that a line only crosses is drawn through it; where it is not, the two are one.
    """
    ends = {place for pair in across for place in pair}
    ways = [0] * (2 * max((*above, *below, *ends), default=0) + 1)
    for pair in across:
        left, right = sorted(pair)
        for place in range(2 * left, 2 * right):
            ways[place] |= _RIGHT
            ways[place + 1] |= _LEFT
    for place in above | below:
        if place not in ends:
            ways[2 * place] = 0
        ways[2 * place] |= _UP * (place in above) | _DOWN * (place in below)
    return "".join(_JOINTS[way] for way in ways)


def nodes(graph: Graph) -> list[Node]:
    """The lanes of the whole graph; what was folded is the last node, from which its children began."""
    lanes = _Lanes()
    old = set(graph.folded.children) if graph.folded is not None else set()
    out = [lanes.node(one.basin, (*one.parents, *([FOLD] if one.basin in old else []))) for one in graph.pursuits]
    return [*out, lanes.node(FOLD, ())] if graph.folded is not None else out


# --- on a terminal ---------------------------------------------------------------------------------------------------


def text(graph: Graph, look: Look, *, repo: str) -> str:
    """Every session on two lines, what it began from below it; what the signs mean last."""
    if not graph.pursuits and graph.folded is None:
        return "No session yet. A run opens one."
    title: list[Piece] = [(f" {clean(repo)}", BOLD), "   sessions, newest first"]
    lines = [drawn(title, look, right="a session lives as long as its goal "), *needs(graph.needs_you, look), ""]
    them = {one.basin: one for one in graph.pursuits}
    lanes = nodes(graph)
    indent = min(max(len(node.line) for node in lanes), look.width // 3) + 5
    name = 2 + min(NAME, max((cells(one.basin) for one in graph.pursuits), default=0))
    for place, node in enumerate(lanes):
        if place:
            lines.append(_beside(node.above, indent, "", look))
        if node.name == FOLD:
            lines.append(_beside(_signed(node, FOLD), indent, _folded(graph), look, code=DIM))
            continue
        one = them[node.name]
        lines.append(_named(one, node, look, indent=indent, name=name))
        at = indent + (name + _WORDS if look.width >= ROOMY else 0)
        said = [line.strip() for line in wrapped(_facts(one, graph), look, indent=at, first=at, most=2)]
        lines += [
            _beside(node.after if more else node.below, at, line, look, code=DIM) for more, line in enumerate(said)
        ]
    return "\n".join([*lines, "", *_legend(graph, look)])


def _signed(node: Node, sign: str) -> str:
    return f"{node.line[: node.at]}{sign}{node.line[node.at + 1 :]}"


def _beside(lanes: str, indent: int, said: str, look: Look, *, code: str = "") -> str:
    """Lanes, and words beside them."""
    shown = _ascii(lanes) if look.ascii else lanes
    gap = " " * max(1, indent - 2 - len(shown))
    return drawn(
        ["  ", (clip(shown, indent - 3, ellipsis=""), DIM), gap, (said, code) if code else said], look
    ).rstrip()


def _ascii(lanes: str) -> str:
    return lanes.translate(_TWINS)


def _named(one: Pursuit, node: Node, look: Look, *, indent: int, name: int) -> str:
    """The first line of a session: its sign, its name, how it stands, and its goal."""
    sign, twin, word = SIGNS[one.stands]
    before, after = node.line[: node.at], node.line[node.at + 1 :]
    over = node.at + 1 - (indent - 3)
    if over > 0:  # more lanes than there is room for: its own is the last that is seen
        before, after = f"{before[: -over - 1]}{FOLD}", ""
    after = after[: max(0, indent - 3 - len(before) - len(sign))]
    if look.ascii:
        sign, before, after = twin, _ascii(before), _ascii(after)
    code = _STYLES.get(one.stands, "")
    said = f"[{word}]" if one.stands == "needs you" and not look.colour else word
    pieces: list[Piece] = ["  ", (before, DIM), (sign, GREEN if one.stands == "met" else BOLD), (after, DIM)]
    pieces.append(" " * max(1, indent - 2 - len(before) - len(sign) - len(after)))
    pieces += [(clip(one.basin, name - 2).ljust(name), BOLD), (said, code) if code else said]
    pieces += [" " * (_WORDS - cells(said)), one.macrostate]
    return drawn(pieces, look).rstrip()


def _facts(one: Pursuit, graph: Graph) -> str:
    """The second line: why it was given up, its age, attempts, criteria, context, and what it left."""
    ended = one.closed if one.stands in ("met", "abandoned") else None
    lived = (ended or graph.as_of) - one.opened if one.opened is not None else None
    today = duration(lived.total_seconds()) if lived is not None and ended is not None else "opened today"
    age = "" if lived is None else counted(lived.days, "day") if lived.days else today
    parts = [
        "  ".join(filter(None, (age, counted(one.attempts, "attempt"), f"{one.met}/{one.required}"))),
        f"{tokens(one.tokens)} tokens of context" if one.tokens else "",
        _left(one),
        "carries the residue of both" if len(one.parents) == 2 else "",
        f"carries the residue of {len(one.parents)}" if len(one.parents) > 2 else "",
    ]
    return "   ".join(filter(None, (one.reason, *parts)))


def _left(one: Pursuit) -> str:
    counts = (
        (one.grafts, counted(one.grafts, "graft")),
        (one.residue, f"{one.residue} residue"),
        (one.questions, counted(one.questions, "question")),
    )
    return ", ".join(said for count, said in counts if count)


def _folded(graph: Graph) -> str:
    folded = graph.folded
    assert folded is not None
    return f"{folded.count} ended over 30 days ago, {folded.met} met"


def _legend(graph: Graph, look: Look) -> list[str]:
    used = {one.stands for one in graph.pursuits}
    words = [f"{sign[1] if look.ascii else sign[0]} {sign[2]}" for stands, sign in SIGNS.items() if stands in used]
    if any(one.parents for one in graph.pursuits):
        words.append(f"{_ascii('├─╯') if look.ascii else '├─╯'} forked from")
    if any(len(one.parents) > 1 for one in graph.pursuits):
        words.append(f"{_ascii('├─╮') if look.ascii else '├─╮'} carries the residue of both")
    return [drawn([(line, DIM)], look) for line in spread(words, look, indent=3)]


# --- for Mermaid -----------------------------------------------------------------------------------------------------


def mermaid(graph: Graph) -> str:
    """A flowchart, children above parents. Its shapes and words say what its colours repeat."""
    names = {one.basin: f"s{place}" for place, one in enumerate(reversed(graph.pursuits), 1)}
    lines = ["flowchart BT"]
    if graph.folded is not None:
        lines.append(f'  old["{_folded(graph)}"]')
    for one in reversed(graph.pursuits):
        left, right = SHAPES[one.stands]
        how = f"{SIGNS[one.stands][2].replace(':', '')}, {one.met}/{one.required}"
        said = f"{label(one.basin, NAME)}<br/>{how}<br/>{label(one.macrostate, 200)}"
        style = f":::{one.stands.replace(' ', '-')}" if one.stands in ("met", "needs you") else ""
        lines.append(f'  {names[one.basin]}{left}"{said}"{right}{style}')
    for one in reversed(graph.pursuits):
        lines += [f"  {names[parent]} --> {names[one.basin]}" for parent in one.parents]
    if graph.folded is not None:
        lines += [f"  old --> {names[child]}" for child in graph.folded.children]
    lines += [
        "  classDef met fill:#1a7a45,stroke:#1a7a45,color:#ffffff",
        "  classDef needs-you fill:#ffd166,stroke:#2b2100,color:#2b2100",
    ]
    return "\n".join(lines)
