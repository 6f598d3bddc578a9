"""The command group: each command's module is imported only when it is called, or when help is asked for."""

from __future__ import annotations

import importlib
import sys

import click

from orchconverge import __version__
from orchconverge.core.views.text import clean
from orchconverge.errors import INTERRUPTED, USAGE

HOMES = {
    "run": "run",
    "resume": "run",
    "_drive": "launch",
    "status": "status",
    "watch": "watch",
    "wait": "status",
    "attach": "status",
    "logs": "logs",
    "stop": "control",
    "declare": "target",
    "amend": "target",
    "prune": "records",
    "kill": "records",
    "harvest": "records",
    "frontier": "records",
    "open": "waves",
    "retry": "waves",
    "lock": "lock",
    "graft": "graft",
    "gc": "gc",
    "report": "chain",
    "diff": "compare",
    "overlap": "compare",
    "matrix": "compare",
    "pushl": "pushl",
    "reviewdeep": "reviewdeep",
    "copilot": "copilot",
    "_step": "chain",
    "_notify": "notify",
    "ledger": "ledger",
    "engines": "doctor",
    "doctor": "doctor",
    "sessions": "sessions",
    "trace": "trace",
    "timeline": "timeline",
    "graph": "graph",
    "completion": "completion",
    "commands": "commands",
}
"""Command -> the module of this package that has it."""
SECTIONS = {
    "Run a goal": "run open resume stop wait attach",
    "See how it goes": "status watch timeline graph sessions logs trace report",
    "Write the target": "declare amend frontier kill",
    "Decide on what minds made": "lock graft prune retry harvest matrix diff overlap",
    "Finish on the forge": "pushl reviewdeep copilot",
    "Keep house": "doctor engines gc ledger completion commands",
}
"""Heading in the help -> its commands, those most wanted first."""


class Lazy(click.Group):
    """Finds a command by its name in `HOMES`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of `HOMES`, internal ones left out."""
        return [name for name in HOMES if not name.startswith("_")]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by what they are for."""
        longest = max(map(len, HOMES))
        for heading, names in SECTIONS.items():
            found = [(name, self.get_command(ctx, name)) for name in names.split()]
            room = formatter.width - 6 - longest
            rows = [(name.ljust(longest), one.get_short_help_str(room)) for name, one in found if one is not None]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module that has the command."""
        home = HOMES.get(cmd_name)
        if home is None:
            return None
        module = importlib.import_module(f"orchconverge.cli.{home}")
        found = getattr(module, "open_" if cmd_name == "open" else cmd_name.lstrip("_"))
        assert isinstance(found, click.Command)
        return found


HELP = """Drive a goal to convergence: minds attempt, criteria judge, git keeps.

\b
orchconverge "what should be true when it is done"     start
orchconverge --status [--verbose|--json]               look
orchconverge --stop [--cleanup]                        stop
orchconverge --resume                                  go on

\b
The options of a start (limits, criteria, engine, branch): orchconverge run --help
Those of the others: orchconverge status --help, and so on.
"""
"""A line that click finds a backspace before is left as it is."""
BARE: tuple[list[str], ...] = ([], ["ledger"], ["commands"])
"""What says too little to be run."""


@click.group(cls=Lazy, help=HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="orchconverge")
def orchconverge() -> None:
    """Drive a goal to convergence."""


def command(argv: list[str]) -> int:
    """Run click without letting it leave the process. Returns the exit code."""
    if argv in BARE:
        command([*argv, "--help"])
        return USAGE
    try:
        result = orchconverge.main(argv, prog_name="orchconverge", standalone_mode=False)
    except click.exceptions.Exit as left:
        return left.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        print(f"orchconverge: {clean(error.format_message(), 1000)}", file=sys.stderr)
        named = f"orchconverge {argv[0]}" if argv[0] in HOMES else "orchconverge"
        path = getattr(getattr(error, "ctx", None), "command_path", named)
        print(f"  {path} --help", file=sys.stderr)
        return USAGE
    return result if isinstance(result, int) else 0
