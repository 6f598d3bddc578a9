"""Finds the token for a forge: the variables and the sign-in of `gh`. It is never shown, written or passed in an argv."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from orchconverge.adapters.forge_urls import Address

EVERYWHERE = ("GH_TOKEN", "GITHUB_TOKEN")
ENTERPRISE = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
SECONDS = 10.0


def token_for(address: Address, env: Mapping[str, str]) -> str | None:
    """The token for this forge, or ``None``. The variables mean what they mean to `gh` (`gh help environment`).

    A remote's URL may be anybody's text. So a variable that names no host is meant for github.com and for what the person
    named in the settings or in ``GH_HOST``; any other host gets only what `gh auth login` was told for it.
    """
    host = address.host
    names: tuple[str, ...] = ()
    if host == "github.com" or host.endswith(".ghe.com"):
        names = EVERYWHERE
    elif address.chosen or env.get("GH_HOST", "").lower() == host:
        names = (*ENTERPRISE, *EVERYWHERE) if address.chosen else ENTERPRISE
    for name in names:
        if token := _whole(env.get(name, "")):
            return token
    return _signed_in(host, env)


def _signed_in(host: str, env: Mapping[str, str]) -> str | None:
    """What `gh` keeps for this host. The variables are hidden from it: it would answer them for every host."""
    shown = {name: value for name, value in env.items() if name not in (*EVERYWHERE, *ENTERPRISE)}
    try:
        told = subprocess.run(
            ["gh", "auth", "token", f"--hostname={host}"],
            env={**shown, "GH_PROMPT_DISABLED": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _whole(told.stdout.decode("ascii", "ignore")) if told.returncode == 0 else None


def _whole(text: str) -> str | None:
    """A token in one word of visible ASCII: anything else cannot stand in a header."""
    token = text.strip()
    return token if token and token.isascii() and token.isprintable() and " " not in token else None
