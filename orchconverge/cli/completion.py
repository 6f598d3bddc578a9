"""`completion`: shell completion by click's own scripts, with the names of goals and branches that the ledger has now."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from orchconverge import bootstrap
from orchconverge.cli.group import HOMES, orchconverge
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.core.state import Basin, State

NAME: Final = "orchconverge"
VARIABLE: Final = "_ORCHCONVERGE_COMPLETE"
"""In which a shell asks what may stand where its cursor is, as click's scripts do it."""
PATIENCE_SECONDS: Final = 2.0
"""After which nothing is offered: a person who typed a tab waits no longer."""
TITLE: Final = 40
"""Cells of a goal's title beside its name."""
RUNNING: Final = frozenset({"stop"})
OPEN: Final = frozenset({"resume", "open", "lock", "kill", "amend"})
"""Commands for goals that can still go on."""
WAITING: Final = frozenset({"prune"})
"""Commands for branches that wait at the lock."""
BOTH: Final = frozenset({"logs", "trace"})
"""Commands that take the name of a goal or of a branch."""
BRANCHES: Final = frozenset({"diff"})
"""Commands whose arguments are branches and do not say so."""
AT_MOST: Final = 100
"""Names that are offered, the newest ones."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that makes a shell complete our commands, options, goals and branches.

    \b
    bash  eval "$(orchconverge completion bash)"        in ~/.bashrc
    zsh   eval "$(orchconverge completion zsh)"         in ~/.zshrc, after compinit
    fish  orchconverge completion fish > ~/.config/fish/completions/orchconverge.fish
    """  # noqa: D301 - a backspace, which tells click to leave the lines as they are
    click.echo(SHELLS[shell](orchconverge, {}, NAME, VARIABLE).source())
    return 0


def answer(asked: str, *, words: Callable[[Sequence[str]], list[str]], flags: Iterable[str]) -> int:
    """Answer a shell's question, e.g. ``bash_complete``. On any trouble there is no answer, and never a word about it.

    ``words`` makes of a command line the one that click gets, ``flags`` are options that stand for a command.
    """
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
    shell, _, what = asked.partition("_")
    with suppress(Exception):
        found = SHELLS[shell](orchconverge, {}, NAME, VARIABLE)
        found.words, found.flags = words, tuple(flags)
        print(found.complete() if what == "complete" else found.source())
    return 0


class _Ours(ShellComplete):
    """What we know and click does not: that a bare goal means `run`, and which names there are."""

    words: Callable[[Sequence[str]], list[str]]
    flags: tuple[str, ...]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """What may stand where the cursor is."""
        if not args and not incomplete.startswith("-"):
            return [CompletionItem(name) for name in HOMES if name.startswith(incomplete) and name[0] != "_"]
        flags = [] if args else [CompletionItem(flag) for flag in self.flags if flag.startswith(incomplete)]
        try:
            words = self.words(args or ["run"])
        except Refused:  # a slip
            return []
        _name(orchconverge, words)
        return [*flags, *super().get_completions(words, incomplete)]


class _Bash(_Ours, BashComplete):
    pass


class _Zsh(_Ours, ZshComplete):
    pass


class _Fish(_Ours, FishComplete):
    pass


SHELLS: Final[Mapping[str, type[_Ours]]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def _name(group: click.Group, words: Sequence[str]) -> None:
    """Have the parameters of the command that these words begin with complete the names that they take."""
    command = group.get_command(click.Context(group), words[0])
    if isinstance(command, click.Group):
        _name(command, [*(word for word in words[1:] if not word.startswith("-")), ""])
        return
    for parameter in command.params if command is not None else ():
        names = names_of(words[0], parameter)
        if names is not None:
            parameter.shell_complete = _completing(names)  # type: ignore[method-assign, assignment]


Names = Callable[["State"], "Iterable[tuple[str, Basin]]"]
"""Of the names that there are those that are meant, the newest first, each with its goal."""


def names_of(command: str, parameter: click.Parameter) -> Names | None:
    """Which names a parameter of a command takes; ``None`` for one that takes no names of ours."""
    said = (getattr(parameter, "metavar", None) or parameter.name or "").upper()
    if isinstance(parameter, click.Option):
        return _basins if said == "BASIN" else None
    if command in BOTH:
        return lambda state: [*_basins(state), *_branches(state)]
    if "BASIN" in said and command in RUNNING:
        return lambda state: [(name, basin) for name, basin in _basins(state) if basin.running is not None]
    if "BASIN" in said and command in OPEN:
        return lambda state: [(name, basin) for name, basin in _basins(state) if basin.phase == "open"]
    if "BASIN" in said:
        return _basins
    if command in WAITING:
        return lambda state: [(name, basin) for name, basin in _branches(state) if state.branches[name].waits]
    return _branches if "BRANCH" in said or command in BRANCHES else None


def _basins(state: State) -> list[tuple[str, Basin]]:
    return [(basin.id, basin) for basin in reversed(tuple(state.basins.values()))]


def _branches(state: State) -> list[tuple[str, Basin]]:
    return [(name, basin) for _, basin in _basins(state) for name in reversed(state.waves.get(basin.id, ()))]


def _completing(names: Names) -> Callable[[click.Context, str], list[CompletionItem[str]]]:
    def complete(context: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        bootstrap.clean_environment()
        found = names(bootstrap.reader(bootstrap.here()).ledger.state)
        begin = ((name, basin) for name, basin in found if name.startswith(incomplete))
        return [CompletionItem(name, help=clean(basin.title, TITLE)) for name, basin in islice(begin, AT_MOST)]

    return complete
