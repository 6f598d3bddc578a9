"""What can be told of agents' programs without asking them for anything: their version, and by which names they are signed in.

Files and variables are told by their names alone; none of these files is opened.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from orchconverge.errors import Refused
from orchconverge.whereabouts import base_folder

VERSION_SECONDS: Final = 1.0
"""How long a program may take to print its version, where its files do not tell it."""
MOST_BYTES: Final = 1 << 20
_VERSION: Final = re.compile(r"\d+\.\d+(?:\.\d+)?[\w.+-]*")
_PROVIDERS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")


class Known(NamedTuple):
    """How an agent is installed and signed in, and what its engine does with it.

    ``files`` are (variable of a folder, that folder from the home, file in it); ``wheel`` its name among Python packages.
    """

    install: str
    sign_in: str
    variables: tuple[str, ...]
    files: tuple[tuple[str, str, str], ...] = ()
    wheel: str = ""
    caps: tuple[str, ...] = ()
    hooks: bool = False
    cost: bool = False


KNOWN: Final[Mapping[str, Known]] = {
    "claude": Known(
        install="npm install -g @anthropic-ai/claude-code",
        sign_in="claude, then /login; or export ANTHROPIC_API_KEY",
        variables=(
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
        ),
        files=(("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json"),),
        caps=("dollars",),
        hooks=True,
        cost=True,
    ),
    "codex": Known(
        install="npm install -g @openai/codex",
        sign_in="codex login",
        variables=("CODEX_API_KEY", "OPENAI_API_KEY"),
        files=(("CODEX_HOME", ".codex", "auth.json"),),
        hooks=True,
    ),
    "gemini": Known(
        install="npm install -g @google/gemini-cli",
        sign_in="gemini, then /auth; or export GEMINI_API_KEY",
        variables=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
        files=(("", ".gemini", "oauth_creds.json"),),
        hooks=True,
    ),
    "opencode": Known(
        install="npm install -g opencode-ai",
        sign_in="opencode auth login",
        variables=_PROVIDERS,
        files=(("XDG_DATA_HOME", ".local/share", "opencode/auth.json"),),
        hooks=True,
        cost=True,
    ),
    "aider": Known(
        install="pipx install aider-chat",
        sign_in="export OPENAI_API_KEY, or the key of another provider",
        variables=_PROVIDERS,
        files=(("", ".", ".aider.conf.yml"),),
        wheel="aider_chat",
        cost=True,
    ),
    "mini": Known(
        install="pipx install mini-swe-agent",
        sign_in="mini-extra config setup",
        variables=_PROVIDERS,
        files=(("XDG_CONFIG_HOME", ".config", "mini-swe-agent/.env"),),
        wheel="mini_swe_agent",
        caps=("dollars",),
        cost=True,
    ),
    "copilot": Known(
        install="npm install -g @github/copilot",
        sign_in="copilot, then /login; or export GH_TOKEN",
        variables=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        files=(("", ".copilot", "config.json"),),
    ),
}
"""Agent -> what is known of it. An engine of that name starts it, or the engine `acp` does."""


def over_acp(known: Known, install: str, *, cost: bool) -> Known:
    """The same agent behind the engine `acp`, which asks before each call by itself and passes no limit on."""
    return known._replace(install=install, caps=(), hooks=True, cost=cost)


def signed_in(known: Known, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names of what says that the agent is signed in: variables that are set, files that are there and not empty."""
    found = [name for name in known.variables if environ.get(name)]
    for variable, home, file in known.files:
        try:
            path = base_folder(variable, home, environ) / file
            if path.stat().st_size:
                found.append(Path(file).name)
        except (OSError, Refused):
            continue
    return tuple(found)


def versions(programs: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Program's path -> its version, from its files if they tell, else from ``--version``, all at once; else empty.

    The values of ``programs`` are the names of their Python packages, or empty.
    """
    found = {path: version(Path(path), wheel) for path, wheel in programs.items()}
    silent = [path for path, told in found.items() if not told]
    if silent:
        with ThreadPoolExecutor(len(silent)) as pool:
            found |= zip(silent, pool.map(lambda path: _asked(path, environ), silent), strict=True)
    return found


def version(program: Path, wheel: str = "") -> str:
    """What the files around a program say: its Python package, its `package.json`, or a folder named by the version."""
    real = Path(os.path.realpath(program))
    for info in sorted(real.parent.parent.glob(f"lib/python3*/site-packages/{wheel}-*.dist-info")) if wheel else ():
        return info.name.removeprefix(f"{wheel}-").removesuffix(".dist-info")
    if "node_modules" in real.parts:
        above = len(real.parts) - real.parts[::-1].index("node_modules")
        deep = above + (2 if real.parts[above].startswith("@") else 1)
        told = _package(Path(*real.parts[:deep]) / "package.json")
        if told:
            return told
    return next((part for part in reversed(real.parts) if _VERSION.fullmatch(part)), "")


def _package(path: Path) -> str:
    """The version that a `package.json` tells; empty if it tells none."""
    try:
        with path.open("rb") as file:
            found = msgspec.json.decode(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    told = found.get("version") if isinstance(found, dict) else None
    return told[:40] if isinstance(told, str) and _VERSION.match(told) else ""


def _asked(program: str, environ: Mapping[str, str]) -> str:
    argv = [program, "--version"]
    try:
        ran = subprocess.run(
            argv, env=dict(environ), capture_output=True, stdin=subprocess.DEVNULL, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    told = _VERSION.search(ran.stdout[:4000].decode("utf-8", "replace"))
    return told[0] if told else ""
