"""The settings: flags over `ORCHCONVERGE_*` over the repository's file over the user's file over the defaults.

Each problem is one `Refused` that names the file, variable or flag it stands in, and what to write instead.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from orchconverge.core.comments import BOTS
from orchconverge.core.replaced import STEPS
from orchconverge.errors import Refused
from orchconverge.fields import Amount, Chain, Command, Count, Line, Lines, Text, Variables, chained, listed
from orchconverge.whereabouts import Places, Repository, SettingsFile, places, settings_files

PREFIX = "ORCHCONVERGE_"
PERSONAL = frozenset({"permissions", "forge", "bots", "notify", "otel"})
"""Settings that a repository may not choose for whoever clones it."""
WITH_CONSENT = ("setup", "allow", "env")
"""Settings that run or open something: shown once and consented to when a repository's own file holds them."""
_MINDS_OWN = frozenset({"report"})
"""Not read from the environment: `ORCHCONVERGE_REPORT` is where a mind writes its report."""


class Tmux(BaseModel):
    """Our own tmux server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    socket: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}$")] = Field(
        default="orchconverge", description="Name of the server's socket, as in `tmux -L NAME`."
    )


class Convergence(BaseModel):
    """When motion without closing is constrained, and when it is denied: the budget of one work frontier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    targets: Count = Field(default=8, ge=1, le=64, description="New things that may be looked at before one closes.")
    rereads: Count = Field(default=3, ge=1, le=64, description="Known things that may be looked at again.")
    refusals: Count = Field(default=3, ge=0, le=1000, description="Refusals that are given; the next one is a denial.")
    compactions: Count = Field(
        default=1, ge=0, le=1000, description="How often a compacted or new context begins the budget again."
    )
    mutations: Count = Field(
        default=24, ge=0, le=1000, description="Changes that count and begin it again while a check stays red."
    )
    strays: Count = Field(
        default=3, ge=1, le=1000, description="Changes beside the goal; at a declared stage so many make it void."
    )
    runs: Count = Field(default=24, ge=1, le=64, description="Commands that neither look nor check.")
    inside: Count = Field(
        default=4, ge=1, le=100, description="How many times as much of looking and running one running mind may do."
    )


class Own(BaseModel):
    """A person's own commands in place of steps of the chain: an argv, or `engine:PROMPT`. They run where the target is.

    Each leaves its result in the file that ORCHCONVERGE_STEP_RESULT names.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pushl: Command = Field(default=(), description='In place of `pushl`, as ["my-push", "--fast"] or `engine:/pushl`.')
    reviewdeep: Command = Field(default=(), description="In place of `reviewdeep`.")
    copilot: Command = Field(default=(), description="In place of `copilot`.")
    minutes: Amount = Field(default=50.0, gt=0, le=55, description="Deadline of each of them, in minutes.")

    def commands(self) -> dict[str, tuple[str, ...]]:
        """Step -> the words that stand in its place."""
        found = {step: getattr(self, step) for step in STEPS}
        return {step: words for step, words in found.items() if words}


class Notify(BaseModel):
    """Who is told of what needs you: each need once, in the sentence that `status` says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    urls: Lines = Field(default=(), description="Services, by addresses as apprise has them, e.g. `ntfys://TOPIC`.")
    command: Lines = Field(
        default=(), description="A command, as words; it gets the notice as JSON on its standard input."
    )


class Config(BaseSettings):
    """Every setting, with its unit and what 0 or nothing means."""

    model_config = SettingsConfigDict(
        title="orchconverge settings",
        extra="forbid",
        frozen=True,
        env_prefix=PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
        env_ignore_empty=True,
    )

    max_attempts: Count = Field(
        default=10, ge=0, le=1_000_000, description="Attempts at most. 0: no limit of attempts."
    )
    max_hours: Amount = Field(
        default=3.0, ge=0, le=100_000, description="Hours of active time at most. 0: no limit of hours."
    )
    interval: Amount = Field(
        default=5.0,
        ge=0,
        le=100_000,
        description="Minutes from the start of an attempt to the start of the next. 0: no pause.",
    )
    engine: Text = Field(
        default="",
        description="Engines in order, `NAME[:MODEL][,NAME...]`. Empty: the first one found on this machine.",
    )
    minds: Count = Field(default=1, ge=1, le=1000, description="Minds of an attempt.")
    max_minds: Count = Field(
        default=8, ge=1, le=1000, description="Minds that may run at once, in all goals of the repository."
    )
    widen: str = Field(
        default="stall",
        pattern=r"^(stall|f4|[1-9][0-9]{0,2})$",
        description="When attempts get more minds: `stall`, `f4` (by failures of the most stubborn criterion), or always N.",
    )
    harvest_tries: Count = Field(
        default=12, ge=0, le=1000, description="Parts of other minds that are tried after each attempt."
    )
    harvest_minutes: Amount = Field(
        default=10.0, ge=0, le=100_000, description="Minutes that trying parts may take after each attempt."
    )
    attempt_minutes: Amount = Field(default=60.0, gt=0, le=100_000, description="Deadline of one mind, in minutes.")
    allow: Lines = Field(default=(), description="Shell commands that minds may run beyond git and the criteria's own.")
    permissions: Literal["default", "skip"] = Field(
        default="default",
        description="`skip` starts engines without their permission checks. Not taken from a repository.",
    )
    setup: Text = Field(default="", description="Command run by /bin/sh -c in each new working tree. Empty: none.")
    remote: Annotated[str, Field(pattern=r"^[^\s\x00-][^\s\x00]*$")] = Field(
        default="origin", description="Remote to push to."
    )
    forge: Text = Field(
        default="",
        description="Where pull requests are. Empty: what the remote's URL means; `local`: a record in the state directory; "
        "else the API address of a GitHub repository, `https://HOST/api/v3/repos/OWNER/NAME`. Not taken from a repository.",
    )
    bots: Lines = Field(
        default=BOTS,
        description="Review bots whose comments `copilot` works on, beside members, by account name. Not taken from a "
        "repository.",
    )
    final: Chain = Field(
        default=("pushl", "reviewdeep", "copilot", "report"),
        description="Steps after success or a limit: none, or any of push, review, copilot. A report ends them.",
    )
    report: Literal["commit", "file", "state"] = Field(
        default="commit", description="Report committed, written into the tree, or kept in the state directory only."
    )
    stall_after: Count = Field(
        default=3, ge=1, le=1_000_000, description="Attempts without progress until it is stalled."
    )
    backoff_base_seconds: Amount = Field(
        default=5.0, ge=0, le=86_400, description="First pause after a failed mind. 0: none."
    )
    backoff_cap_seconds: Amount = Field(
        default=300.0, ge=0, le=86_400, description="Longest pause after a failed mind."
    )
    approaches: Lines = Field(
        default=(), description="One for each attempt or branch, in order. Empty: the shipped ones."
    )
    state_dir: Line | None = Field(
        default=None,
        description="Where the ledger lies. Nothing: `orchconverge` in the repository's common git directory.",
    )
    tmux: Tmux = Field(default=Tmux(socket="orchconverge"), description="Our own tmux server.")
    convergence: Convergence = Field(default=Convergence(), description="The budget of one work frontier.")
    chain: Own = Field(default=Own(), description="Commands of your own in place of steps of the chain.")
    memory_floor_bytes: Count = Field(
        default=512 << 20, ge=0, description="No mind is started with less memory free. 0: not looked at."
    )
    disk_floor_bytes: Count = Field(
        default=1 << 30, ge=0, description="No mind is started with less disk free. 0: not looked at."
    )
    env: Variables = Field(default=(), description="Names of further environment variables that minds get.")
    notify: Notify = Field(default=Notify(), description="Who is told of what needs you. Not taken from a repository.")
    otel: bool = Field(
        default=False,
        description="Send a span of each run, attempt, mind, criterion and step to where `OTEL_EXPORTER_OTLP_ENDPOINT` says, "
        "or http://localhost:4318. Not taken from a repository.",
    )
    may_change: Lines = Field(
        default=(), description="Globs (`**`: any depth) of paths that a candidate may change unflagged."
    )
    lock: Literal["auto", "person"] | None = Field(
        default=None, description="Who admits. Nothing: `auto` for a run, `person` for `open`."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed in: `load` layers the sources itself, so that a problem can be traced to its own."""
        return (init_settings,)


_TABLES: dict[str, type[BaseModel]] = {"tmux": Tmux, "convergence": Convergence, "chain": Own, "notify": Notify}
"""Settings that are a table -> what may be in it."""


class Asked(NamedTuple):
    """A command, or an opening, that came with the repository: what needs a person's consent, bound to ``digest``."""

    where: str
    key: str
    argv: tuple[str, ...]
    digest: str


class Loaded(NamedTuple):
    """The settings, and for each that is not a default the place it came from."""

    config: Config
    origins: Mapping[str, str]
    places: Places
    asked: tuple[Asked, ...]


class _Layer(NamedTuple):
    name: str
    table: Mapping[str, Any]
    from_repository: bool = False

    def call(self, key: str) -> str:
        """What a person calls a key of this layer."""
        if self.name == "--":
            return f"--{key.replace('_', '-')}"
        return f"{PREFIX}{key.upper().replace('.', '_')}" if self.name == PREFIX else f"{key} in {self.name}"


def load(repo: Repository, *, flags: Mapping[str, Any] | None = None) -> Loaded:
    """Read and check every layer. ``flags`` are by setting name; one that is ``None`` was not given.

    Reads `os.environ`. Raises `Refused`.
    """
    files = settings_files(repo.root)
    layers = (
        _Layer("--", {key: value for key, value in (flags or {}).items() if value is not None}),
        _Layer(PREFIX, _environment()),
        *(_Layer(file.name, _from_file(file), file.from_repository) for file in files),
    )
    merged: dict[str, Any] = {}
    source: dict[str, _Layer] = {}
    for layer in layers:
        for key, value in layer.table.items():
            if key not in merged:
                merged[key], source[key] = value, layer
            elif isinstance(value, Mapping) and isinstance(merged[key], Mapping):
                source.update((f"{key}.{inner}", layer) for inner in value if inner not in merged[key])
                merged[key] = {**value, **merged[key]}
    try:
        config = Config(**merged)
    except ValidationError as error:
        raise _refused(error, source) from error
    return Loaded(
        config,
        {key: layer.call(key) if layer.name in ("--", PREFIX) else layer.name for key, layer in source.items()},
        places(repo, state_dir=(flags or {}).get("state_dir"), files=files),
        tuple(_asked(config, source)),
    )


def without_files(repo: Repository) -> Loaded:
    """The settings as if no file held any: what stopping a run needs where a file cannot be read. Raises `Refused`."""
    return Loaded(Config(**_environment()), {}, places(repo), ())


def steps(words: str | Iterable[str]) -> tuple[str, ...]:
    """The final chain that ``--final`` means, e.g. ``push,review``. Raises `Refused`."""
    try:
        return chained(listed(words))
    except ValueError as error:
        raise Refused(f"--final: {error}", hint="write e.g. --final push,review or --final none") from error


def refuse_unknown(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse the first key of ``table`` that nobody knows, naming the nearest one that is."""
    names = sorted(known)
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"what there is: {', '.join(names)}"
            raise Refused(f"{where} has no setting called {key!r}", hint=hint)


def said(error: ErrorDetails) -> str:
    """One line of pydantic's, without its prefix, e.g. ``should be greater than or equal to 0``."""
    if error["type"] == "string_pattern_mismatch":
        pattern = error.get("ctx", {}).get("pattern")
        return "it is blank" if pattern == r"\S" else f"it must look like {pattern}"
    return error["msg"].removeprefix("Value error, ").removeprefix("Input ")


def digest(*parts: str) -> str:
    """What a consent is bound to: the same for the same words in the same place, and for nothing else."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _from_file(file: SettingsFile) -> dict[str, Any]:
    refuse_unknown(file.table, Config.model_fields, file.name)
    for name, part in _TABLES.items():
        table = file.table.get(name)
        if isinstance(table, dict):
            refuse_unknown(table, part.model_fields, f"[{name}] of {file.name}")
    if file.from_repository:
        for key in sorted(PERSONAL & set(file.table)):
            raise Refused(
                f"{file.name} sets {key}, which a repository may not choose for you",
                hint=f"remove it there; give --{key}, {PREFIX}{key.upper()} or your own config.toml",
            )
    return file.table


def _environment() -> dict[str, Any]:
    import os

    known = {f"{PREFIX}{name}".upper() for name in Config.model_fields}
    known |= {f"{PREFIX}{name}_{key}".upper() for name, part in _TABLES.items() for key in part.model_fields}
    known -= {f"{PREFIX}{name}".upper() for name in _MINDS_OWN}
    for name, value in os.environ.items():
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
        if name.startswith(PREFIX) and name not in known and value and near:
            raise Refused(f"no setting is read from {name}", hint=f"did you mean {near[0]}?")
    try:
        found = EnvSettingsSource(Config)()
    except SettingsError as error:
        name = next((each for each in _TABLES if f'"{each}"' in str(error)), "tmux")
        one = f"{PREFIX}{name}_{next(iter(_TABLES[name].model_fields))}".upper()
        raise Refused(f"{PREFIX}{name.upper()} cannot be read", hint=f"set {one} alone") from error
    return {key: value for key, value in found.items() if key not in _MINDS_OWN}


def _refused(error: ValidationError, source: Mapping[str, _Layer]) -> Refused:
    first = error.errors(include_url=False, include_input=False)[0]
    path = [str(part) for part in first["loc"]]
    key = path[0] if path else ""
    table = _TABLES.get(key) if path[1:] else None
    layer = source.get(".".join(path[:2]), source.get(key))
    if first["type"] == "extra_forbidden":
        place = layer.call(key) if table and layer else "the command line"
        refuse_unknown({path[-1]: None}, (table or Config).model_fields, place)
    where = layer.call(".".join(path)) if layer is not None else key
    field = table.model_fields.get(path[1]) if table else Config.model_fields.get(key)
    return Refused(f"{where}: {said(first)}", hint=(field.description or "") if field else "")


def _asked(config: Config, source: Mapping[str, _Layer]) -> Iterable[Asked]:
    for key in WITH_CONSENT:
        layer = source.get(key)
        value = getattr(config, key)
        if layer is None or not layer.from_repository or not value:
            continue
        argv = (value,) if isinstance(value, str) else tuple(value)
        yield Asked(layer.name, key, argv, digest(key, *argv))
    for step, words in config.chain.commands().items():
        key = f"chain.{step}"
        layer = source.get(key, source["chain"])
        if layer.from_repository:
            yield Asked(layer.name, key, words, digest(key, *words))
