"""Which forge a repository has: what a person set, else what the remote's URL means."""

from __future__ import annotations

from collections.abc import Mapping

from orchconverge.adapters.forge_calls import Calls
from orchconverge.adapters.forge_github import GitHub
from orchconverge.adapters.forge_token import token_for
from orchconverge.adapters.forge_urls import Address, address_from, address_of
from orchconverge.ports.forge import ForgeError


def found(remote: str, *, setting: str, env: Mapping[str, str]) -> GitHub | None:
    """The forge of a remote's URL; ``None``: none that is known. Raises `Refused`, and `ForgeError` if nobody is signed in.

    A host that is not GitHub's own is one of GitHub Enterprise if there is a token for it.
    """
    if setting == "local":
        return None
    pushed = address_of(remote)
    address = address_from(setting) if setting else pushed
    if address is None:
        return None
    token = token_for(address, env)
    if token is None:
        if not setting and not _githubs(address):
            return None
        raise ForgeError(
            "unauthorised",
            f"nobody is signed in to {address.host}",
            hint=f"`gh auth login --hostname {address.host}`, or set GH_TOKEN; then `orchconverge pushl`",
        )
    fork = pushed is not None and pushed.host == address.host and pushed.owner != address.owner
    return GitHub(address, Calls(address.api, token), head_owner=pushed.owner if pushed is not None and fork else "")


def _githubs(address: Address) -> bool:
    return address.host == "github.com" or address.host.endswith(".ghe.com")
