"""Which repository on which forge a remote's URL means, and where its API answers."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from msgspec import Struct

from orchconverge.errors import Refused

_URL = re.compile(
    r"(?:https?|ssh|git)://(?:[^/@]*@)?(?P<host>[a-z0-9][a-z0-9.-]*)(?::\d+)?/+(?P<path>[^?#]+)", re.IGNORECASE
)
_SCP = re.compile(r"(?:[^/@:\s]+@)?(?P<host>[a-z0-9][a-z0-9-]*\.[a-z0-9.-]+):/*(?P<path>[^?#]+)", re.IGNORECASE)
_SETTING = re.compile(
    r"(?P<api>https?://(?P<host>[a-z0-9][a-z0-9.-]*(?::\d+)?|\[::1\](?::\d+)?)(?:/[^\s?#]*)?)/repos/(?P<owner>[^/\s]+)/(?P<name>[^/\s]+?)/?"
)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_LOOPBACK = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?")


class Address(Struct, frozen=True):
    """A repository on a forge. ``api`` is the base URL of its REST API; ``chosen``: a person named it, no remote did."""

    host: str
    owner: str
    name: str
    api: str
    chosen: bool = False

    @property
    def path(self) -> str:
        """The repository's path in the API."""
        return f"/repos/{quote(self.owner)}/{quote(self.name)}"


def address_of(remote: str) -> Address | None:
    """What a remote's URL means; ``None`` for a path, and for what has no owner and name."""
    found = _URL.fullmatch(remote.strip()) or _SCP.fullmatch(remote.strip())
    if found is None:
        return None
    parts = [part for part in unquote(found["path"]).removesuffix("/").removesuffix(".git").split("/") if part]
    if len(parts) != 2 or not all(map(_NAME.fullmatch, parts)):
        return None
    host = found["host"].lower()
    host = "github.com" if host in ("www.github.com", "ssh.github.com") else host
    return Address(host, parts[0], parts[1], _api(host))


def address_from(setting: str) -> Address:
    """What a person's setting means: ``https://HOST/api/v3/repos/OWNER/NAME``. Raises `Refused`."""
    found = _SETTING.fullmatch(setting)
    plain = found is not None and setting.startswith("http://")
    if found is None or (plain and not _LOOPBACK.fullmatch(found["host"])):
        raise Refused(
            "the setting forge is no address of a repository's API",
            hint="write local, or e.g. https://api.github.com/repos/OWNER/NAME; on another host /api/v3 comes before /repos",
        )
    host = found["host"].lower()
    return Address(
        "github.com" if host == "api.github.com" else host, found["owner"], found["name"], found["api"], True
    )


def _api(host: str) -> str:
    if host == "github.com" or host.endswith(".ghe.com"):
        return f"https://api.{host}"
    return f"https://{host}/api/v3"
