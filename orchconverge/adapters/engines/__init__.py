"""The engines there are: one static table, in the order in which an installed one is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orchconverge.adapters.engines.acp import PRESETS, Acp
from orchconverge.adapters.engines.aider import Aider
from orchconverge.adapters.engines.claude import Claude
from orchconverge.adapters.engines.codex import Codex
from orchconverge.adapters.engines.command import Command
from orchconverge.adapters.engines.gemini import Gemini
from orchconverge.adapters.engines.mini import Mini
from orchconverge.adapters.engines.opencode import OpenCode
from orchconverge.adapters.engines.scripted import Scripted
from orchconverge.core.values import Settings
from orchconverge.errors import Refused
from orchconverge.ports import Engine

ENGINES: dict[str, Callable[[Mapping[str, str]], Engine]] = {
    "claude": Claude,
    "codex": Codex,
    "gemini": Gemini,
    "opencode": OpenCode,
    "aider": Aider,
    "mini": Mini,
    "acp": Acp,
    "command": Command,
    "scripted": Scripted,
}
"""Name -> what makes the engine of the caller's environment, in which it looks for its program."""
NAMED_ONLY = frozenset({"mini", "acp", "command", "scripted"})
"""Engines that are never chosen for somebody."""


def detect(environ: Mapping[str, str]) -> str | None:
    """The first installed engine of the table that need not be named."""
    return next((name for name in ENGINES if name not in NAMED_ONLY and ENGINES[name](environ).find()), None)


def ready(name: str, environ: Mapping[str, str], settings: Settings) -> Engine:
    """The engine ``name``, or ``NAME:MODEL``, with all that can be known before a start checked. Raises `Refused`."""
    name, _, model = name.partition(":")
    if name not in ENGINES:
        raise Refused(f"there is no engine `{name}`", hint=f"engines: {supported()}")
    engine = ENGINES[name](environ)
    if engine.find() is None:
        raise Refused(f"engine `{name}` is not installed", hint=f"install it, or choose another: {supported()}")
    if isinstance(engine, Command):
        engine.argv(settings)
    if isinstance(engine, Scripted):
        engine.playable(settings)
    if isinstance(engine, Acp):
        engine.agent(model, settings)
    if isinstance(engine, Mini):
        engine.check(settings)
    return engine


def supported() -> str:
    """The engines in a line, for messages and help."""
    agents = ", ".join(name for name in ENGINES if name not in ("acp", "command", "scripted"))
    over_acp = f"acp:{{{','.join(PRESETS)}}}"
    return f'{agents}; {over_acp}; command (any program: --engine command --argv "…"); scripted (--engine scripted --script FILE)'
