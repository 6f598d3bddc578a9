"""The settings: flags over `ORCHCONVERGE_*` over the repository's file over the user's file over the defaults.

Each problem is one `Refused` that names the file, variable or flag it stands in, and what to write instead.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from orchconverge.errors import Refused
from orchconverge.whereabouts import Places, Repository, SettingsFile, places, settings_files

PREFIX = "ORCHCONVERGE_"
STEPS: dict[str, str] = {
    "push": "pushl",
    "pushl": "pushl",
    "review": "reviewdeep",
    "reviewdeep": "reviewdeep",
    "copilot": "copilot",
    "report": "report",
}
"""What may be written in ``final`` -> the step it means, in the order in which steps run."""

PERSONAL = frozenset({"permissions"})
"""Settings that a repository may not choose for whoever clones it."""
WITH_CONSENT = ("setup", "allow", "env")
"""Settings that run or open something: shown once and consented to when a repository's own file holds them."""
_MINDS_OWN = frozenset({"report"})
"""Not read from the environment: `ORCHCONVERGE_REPORT` is where a mind writes its report."""


def _no_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not true or false")
    return value


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("a NUL byte cannot be part of it")
    return value


def _listed(value: object) -> object:
    """A list from an environment variable or a flag: JSON if it begins like it, else separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it begins like a JSON list and is none: {error}") from error
    return [part.strip() for part in value.split(",") if part.strip()]


def _chain(value: object) -> object:
    words = _listed(value)
    return _steps(words) if isinstance(words, list | tuple) else words


def _steps(words: object) -> tuple[str, ...]:
    """Words of the final chain -> its steps in order; ``report`` always comes last, unless there is nothing at all."""
    asked = list(words) if isinstance(words, Iterable) else []
    if asked == ["none"]:
        return ()
    for word in asked:
        if not isinstance(word, str) or word not in STEPS:
            raise ValueError(f"{word!r} is no step; write none, or any of {', '.join(STEPS)}")
    meant = {STEPS[word] for word in asked} | {"report"}
    return tuple(step for step in dict.fromkeys(STEPS.values()) if step in meant)


Text = Annotated[str, AfterValidator(_no_nul)]
Count = Annotated[int, BeforeValidator(_no_truth)]
Amount = Annotated[float, BeforeValidator(_no_truth), Field(allow_inf_nan=False)]
Line = Annotated[str, Field(pattern=r"\S"), AfterValidator(_no_nul)]
Lines = Annotated[tuple[Line, ...], NoDecode, BeforeValidator(_listed)]
Variables = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...], NoDecode, BeforeValidator(_listed)
]
Chain = Annotated[
    tuple[str, ...],
    NoDecode,
    BeforeValidator(_chain),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"enum": ["none", *STEPS]}}]}),
]


class Tmux(BaseModel):
    """Our own tmux server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    socket: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}$")] = Field(
        default="orchconverge", description="Name of the server's socket, as in `tmux -L NAME`."
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
    memory_floor_bytes: Count = Field(
        default=512 << 20, ge=0, description="No mind is started with less memory free. 0: not looked at."
    )
    disk_floor_bytes: Count = Field(
        default=1 << 30, ge=0, description="No mind is started with less disk free. 0: not looked at."
    )
    env: Variables = Field(default=(), description="Names of further environment variables that minds get.")
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
        return _steps(_listed(words))
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
    tmux = file.table.get("tmux")
    if isinstance(tmux, dict):
        refuse_unknown(tmux, Tmux.model_fields, f"[tmux] of {file.name}")
    if file.from_repository:
        for key in sorted(PERSONAL & set(file.table)):
            raise Refused(
                f"{file.name} sets {key}, which a repository may not choose for you",
                hint=f"remove it there; give --{key}, {PREFIX}{key.upper()} or your own config.toml",
            )
    return file.table


def _environment() -> dict[str, Any]:
    import os

    known = {f"{PREFIX}{name}".upper() for name in Config.model_fields} | {f"{PREFIX}TMUX_SOCKET"}
    known -= {f"{PREFIX}{name}".upper() for name in _MINDS_OWN}
    for name, value in os.environ.items():
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
        if name.startswith(PREFIX) and name not in known and value and near:
            raise Refused(f"no setting is read from {name}", hint=f"did you mean {near[0]}?")
    try:
        found = EnvSettingsSource(Config)()
    except SettingsError as error:
        raise Refused(f"{PREFIX}TMUX cannot be read", hint=f"set {PREFIX}TMUX_SOCKET alone") from error
    return {key: value for key, value in found.items() if key not in _MINDS_OWN}


def _refused(error: ValidationError, source: Mapping[str, _Layer]) -> Refused:
    first = error.errors(include_url=False, include_input=False)[0]
    path = [str(part) for part in first["loc"]]
    key = path[0] if path else ""
    if first["type"] == "extra_forbidden":
        refuse_unknown({path[-1]: None}, Config.model_fields, "the command line")
    where = source[key].call(".".join(path)) if key in source else key
    field = Config.model_fields.get(key)
    return Refused(f"{where}: {said(first)}", hint=(field.description or "") if field else "")


def _asked(config: Config, source: Mapping[str, _Layer]) -> Iterable[Asked]:
    for key in WITH_CONSENT:
        layer = source.get(key)
        value = getattr(config, key)
        if layer is None or not layer.from_repository or not value:
            continue
        argv = (value,) if isinstance(value, str) else tuple(value)
        yield Asked(layer.name, key, argv, digest(key, *argv))
