"""The keys of the full-screen view: one table for what they do, where they do it, and the screen that lists them."""

from __future__ import annotations

from typing import Final, NamedTuple

from orchconverge.core.views.lines import BOLD, Look, drawn

OVERVIEW, DESTINATION, TEXT = "the overview", "a destination", "a text"


class Key(NamedTuple):
    """``names`` as Textual has them; ``does`` is the action; ``where`` the screens on which it does something."""

    names: tuple[str, ...]
    shown: str
    does: str
    words: str
    where: tuple[str, ...] = (OVERVIEW, DESTINATION, TEXT)


KEYS: Final = (
    Key(("n",), "n", "need", "the next thing that needs you"),
    Key(("j", "down"), "j down", "down", "one down"),
    Key(("k", "up"), "k up", "up", "one up"),
    Key(("home",), "home", "home", "the first"),
    Key(("end",), "end", "end", "the last"),
    Key(("pagedown",), "page down", "page_down", "a screen down", (TEXT,)),
    Key(("pageup",), "page up", "page_up", "a screen up", (TEXT,)),
    Key(("enter",), "enter", "enter", "open: the destination, then the diff", (OVERVIEW, DESTINATION)),
    Key(("escape",), "esc", "back", "back"),
    Key(("slash",), "/", "find", "filter by id, word, phase (phase:waiting)", (OVERVIEW,)),
    Key(("l",), "l", "lock", "decide: orchconverge lock, and back here when it is left"),
    Key(("a",), "a", "attach", "attach to its tmux session, and back here on detach", (OVERVIEW, DESTINATION)),
    Key(("v",), "v", "evidence", "what the criteria's commands said", (DESTINATION,)),
    Key(("d",), "d", "diff", "what the candidate changes", (DESTINATION,)),
    Key(("o",), "o", "overlap", "where candidates claim the same lines", (DESTINATION,)),
    Key(("x",), "x", "against", "the candidate against the next best", (DESTINATION,)),
    Key(("t",), "t", "timeline", "timeline"),
    Key(("g",), "g", "graph", "graph of pursuits"),
    Key(("f",), "f", "frontier", "open questions"),
    Key(("e",), "e", "events", "what happened, newest first"),
    Key(("c",), "c", "copy", "copy the command; it is printed too when you quit"),
    Key(("space",), "space", "hold", "hold still, and go on"),
    Key(("question_mark",), "?", "keys", "these keys"),
    Key(("q",), "q", "quit", "quit; the last frame stays on the terminal"),
)
ACTIONS: Final = {name: key for key in KEYS for name in key.names}


def listed(where: str, look: Look) -> list[str]:
    """The keys of one screen, a line each."""
    return [drawn([f"   {'':<0}", (f"{key.shown:<11}", BOLD), key.words], look) for key in KEYS if where in key.where]
