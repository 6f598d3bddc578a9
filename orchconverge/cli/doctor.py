"""`doctor` and `engines`: what is there of what a run needs, and what to type where something is missing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from orchconverge import __version__, bootstrap, whereabouts
from orchconverge.core.views import doctor as view
from orchconverge.core.views.doctor import Ability, Finding, fault, ok, warning
from orchconverge.core.views.text import counted
from orchconverge.errors import OrchConvergeError

if TYPE_CHECKING:
    from orchconverge.adapters.probes_agents import Known
    from orchconverge.config import Config


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
def doctor(as_json: bool) -> int:
    """Look at all that a run needs, here and on this machine. Exit 1 if there is a fault. Asks no network."""
    findings = [*_findings(bootstrap.here())]
    click.echo(_json(view.document(findings)) if as_json else view.text(findings))
    return int(any(one.state == "fault" for one in findings))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
def engines(as_json: bool) -> int:
    """List the engines: which are installed, and what each can do."""
    found = _abilities()
    click.echo(_json({"engines": msgspec.to_builtins(found)}) if as_json else view.engines(found))
    return 0


def _json(document: object) -> str:
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def _findings(cwd: Path) -> Iterator[Finding]:
    from orchconverge.adapters import git_probes, probes, tmux_probes
    from orchconverge.adapters.host import SystemHost

    settings, places, problem = _settings(cwd)
    yield from problem
    yield tmux_probes.tmux(settings.tmux.socket)
    git = git_probes.git(os.environ)
    yield git
    if git.state == "ok" and places is not None:
        yield from git_probes.repository(cwd, places.trees)
        yield probes.forge(settings.remote, git_probes.host(cwd, settings.remote), os.environ)
    elif git.state == "ok" and not problem:
        yield warning(
            "repository", f"{cwd} is in none, and a run needs one", 'git init; git commit --allow-empty -m "start"'
        )
        yield git_probes.identity(cwd)
    yield from _agents(settings.engine)
    floors = {"memory_floor": settings.memory_floor_bytes, "disk_floor": settings.disk_floor_bytes}
    yield from probes.room(SystemHost(tuple(places or (cwd,))).look(), **floors)
    yield probes.locale(os.environ)
    yield probes.sandbox(os.environ)
    yield from probes.extras({"notify": bool(settings.notify.urls), "otel": settings.otel})
    if places is not None:
        yield probes.state(places.state)
        yield _ledger(cwd)


def _settings(cwd: Path) -> tuple[Config, whereabouts.Places | None, list[Finding]]:
    """The settings, and where things lie if ``cwd`` is in a repository; those that cannot be read are left out and said."""
    from orchconverge import config

    try:
        here = whereabouts.repository(cwd)
    except OrchConvergeError as error:
        return config.Config(), None, [fault("repository", error.message, error.hint)]
    try:
        loaded = config.load(here or whereabouts.Repository(None, cwd, cwd))
    except OrchConvergeError as error:
        places = None
        with contextlib.suppress(OrchConvergeError):  # it is what is said already
            places = whereabouts.places(here, files=()) if here is not None else None
        return config.Config(), places, [fault("settings", error.message, error.hint)]
    return loaded.config, loaded.places if here is not None else None, []


def _ledger(cwd: Path) -> Finding:
    try:
        health = bootstrap.reader(cwd).ledger.health
    except OrchConvergeError as error:
        return fault("ledger", error.message, error.hint)
    except OSError as error:
        return fault("ledger", f"it cannot be read: {error.strerror}", "ls -l, there")
    lines = counted(health.lines, "line")
    if health.bad or health.illegal:
        said = f"of {lines} {health.bad} are damaged and {health.illegal} illegal: they are skipped"
        return fault("ledger", said, "orchconverge ledger verify")
    if health.unknown:
        newer = f"of {lines} {health.unknown} are of a newer version: kept, not shown"
        return warning("ledger", newer, "install the version of orchconverge that wrote them")
    return ok("ledger", lines if health.lines else "none yet")


# --- engines ---------------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """An engine, or an agent behind `acp`, by what a person calls it; ``known`` unless it has no program of its own."""

    name: str
    path: str | None
    known: Known | None
    resumes: bool
    commits: bool


def _rows() -> Iterator[_Row]:
    from orchconverge.adapters.engines import ENGINES
    from orchconverge.adapters.engines.acp import PRESETS
    from orchconverge.adapters.probes_agents import KNOWN, over_acp

    for name, build in ENGINES.items():
        engine = build(os.environ)
        if name != "acp":
            yield _Row(name, engine.find(), KNOWN.get(name), engine.contextual, engine.commits)
            continue
        for agent, preset in PRESETS.items():
            known = over_acp(KNOWN[agent], preset.install, cost=agent == "claude")
            path = shutil.which(preset.argv[0], path=os.environ.get("PATH"))
            yield _Row(f"acp:{agent}", path, known, preset.loads, engine.commits)


def _abilities() -> list[Ability]:
    from orchconverge.adapters.probes_agents import signed_in, versions

    rows = [*_rows()]
    told = versions({row.path: row.known.wheel for row in rows if row.path and row.known}, os.environ)
    return [
        Ability(
            engine=row.name,
            path=row.path,
            version=told.get(row.path or "", "") if row.known else __version__,
            signed_in=signed_in(row.known, os.environ) if row.known and row.path else (),
            caps=row.known.caps if row.known else (),
            resumes=row.resumes,
            commits=row.commits,
            hooks=row.known.hooks if row.known else False,
            cost=row.known.cost if row.known else row.name == "scripted",
        )
        for row in rows
    ]


def _agents(asked: str) -> Iterator[Finding]:
    """A line for each agent that is installed or ``asked`` for by the settings, and one for all others."""
    known = {row.name: row.known for row in _rows()}
    chain = [_named(words.strip()) for words in asked.split(",") if words.strip()]
    missing, programs = [], set()
    for one in _abilities():
        agent = known[one.engine]
        if agent is None:
            continue
        said = f"{one.version or 'version not told'}, {one.path}"
        if one.path is None and one.engine in chain:
            yield fault(one.engine, "the settings name it, and it is not installed", agent.install)
        elif one.path is None:
            missing.append(one.engine)
        elif one.path in programs:
            continue  # behind `acp` it is the same program
        elif one.signed_in:
            yield ok(one.engine, f"{said}, signed in by {', '.join(one.signed_in)}")
        else:
            yield warning(one.engine, f"{said}, shows no sign-in", agent.sign_in)
        programs.add(one.path)
    for name in chain:
        if name not in known and name != "acp":
            yield fault(name, "the settings name it, and there is no such engine", "orchconverge engines")
    if programs == {None} and not chain:
        first = known[missing[0]]
        install = f'{first.install if first else ""}; or any program: --engine command --argv "…"'
        yield fault("agents", f"none is installed of {', '.join(missing)}", install)
    elif missing:
        yield ok("agents", f"not installed: {', '.join(missing)}")


def _named(words: str) -> str:
    """The engine that a link of a chain means, ``NAME[:MODEL]``; behind `acp` the agent belongs to its name."""
    name, _, rest = words.partition(":")
    return f"acp:{rest.partition(':')[0]}" if name == "acp" and rest else name
