"""One request to GitHub's API, until it is answered or its time is over; and what each way of failing means."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from orchconverge.core.secrets import masked, masked_in
from orchconverge.core.views.text import clean
from orchconverge.ports.forge import ForgeError, Trouble

if TYPE_CHECKING:
    from github.Requester import Requester

SECONDARY_SECONDS = 60.0
"""What GitHub asks one to wait after a secondary limit that names no time."""
PER_PAGE = 100
MOST_PAGES = 50
MOST_TEXT = 64 << 20
"""Bytes of a text on another host that are read, at most, to find its end."""
_NUMBER = re.compile(r"[0-9]{1,15}")
_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="next"')
_KINDS: Mapping[int, tuple[Trouble, str]] = {
    400: ("invalid", ""),
    401: ("unauthorised", "the token was not accepted: `gh auth login`, or set GH_TOKEN to one that is valid"),
    403: ("forbidden", "the token may not do this: it needs to read contents and to write pull requests and issues"),
    404: ("not_found", "is the repository's name right, and may this token see it?"),
    409: ("conflict", "somebody else changed it at the same moment: type it again"),
    410: ("not_found", "it was deleted there, or that part of the repository is switched off"),
    422: ("invalid", ""),
    451: ("forbidden", ""),
}


_NO_JSON = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)
MOST_SECONDS = 86400.0
"""How long a rate limit lasts at most, whatever the forge says."""
_GRAPHQL: Mapping[str, tuple[Trouble, str]] = {"NOT_FOUND": _KINDS[404], "FORBIDDEN": _KINDS[403]}


class _Refusal(Struct, frozen=True):
    message: str = ""
    type: str = ""


class _GraphQL(Struct, frozen=True):
    data: Any = None
    errors: tuple[_Refusal, ...] = ()


class Said(Struct, frozen=True):
    """An answer of the forge that is no error: JSON as Python has it, and where the next page is."""

    data: object
    next: str = ""


class Calls:
    """Asks one API with one token.

    ``seconds`` bounds each call with its retries, ``silence_seconds`` is how long the forge may take to connect or to send
    the next byte, ``pause_seconds`` is kept between two writes (GitHub's own advice).
    What was answered is asked for again with its ETag: an answer that did not change costs nothing of the rate limit.
    """

    def __init__(
        self,
        api: str,
        token: str,
        *,
        seconds: float = 90.0,
        silence_seconds: int = 20,
        pause_seconds: float = 1.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = urlsplit(api).netloc
        self._api, self._token = api, token
        self._seconds, self._silence_seconds, self._pause_seconds = seconds, silence_seconds, pause_seconds
        self._sleep, self._clock = sleep, clock
        self._opened: Requester | None = None
        self._known: dict[str, tuple[str, Said]] = {}

    def ask(self, verb: str, path: str, *, parameters: Mapping[str, Any] | None = None, body: object = None) -> Said:
        """The answer to one request. Raises `ForgeError`.

        A GET, and whatever can be repeated, is tried again until the time is over; a POST only if it was surely not done.
        No secret leaves in a body: neither the token nor what has the shape of one.
        """
        body = masked_in(body, self._token)
        ends, tries = self._clock() + self._seconds, 0
        while True:
            tries += 1
            try:
                return self._once(verb, path, parameters, body)
            except _Later as later:
                wait = later.seconds if later.seconds is not None else min(2.0**tries, 30.0) / 2
                if (verb == "POST" and later.perhaps_done) or self._clock() + wait >= ends:
                    raise later.error from None
                self._sleep(wait)

    def sent_on(self, path: str) -> str:
        """The address to which the forge sends who asks for this. Raises `ForgeError`."""
        try:
            self.ask("GET", path)
        except _SentOn as elsewhere:
            return elsewhere.to
        raise ForgeError("server", f"{self.host} did not say where {path} is", hint=_PROXY)

    def end_of(self, url: str, *, most_bytes: int) -> str:
        """The end of a text on any host, which gets no token of ours. Raises `ForgeError`.

        It has to be https, or be on this machine as the forge itself. No redirection is followed; of more than `MOST_TEXT`
        bytes the rest is not read.
        """
        import requests

        allowed = ("https",) if not self._api.startswith("http://") else ("https", "http")
        scheme, host = _parts(url)
        if scheme not in allowed:
            raise ForgeError("unreachable", f"{self.host} sends its callers to an address that is not https")
        kept, read = b"", 0
        try:
            with requests.get(
                url,
                auth=lambda request: request,  # else `requests` looks for a password in .netrc
                headers={"User-Agent": "orchconverge"},
                timeout=self._silence_seconds,
                stream=True,
                allow_redirects=False,
            ) as answer:
                if answer.status_code != 200:
                    raise self._refused(answer.status_code, {}, "")
                ends = self._clock() + self._seconds
                for part in answer.iter_content(1 << 16):
                    kept, read = (kept + part)[-most_bytes:], read + len(part)
                    if read > MOST_TEXT or self._clock() > ends:
                        break
        except _Later as later:
            raise later.error from None
        except (requests.exceptions.RequestException, OSError, ValueError):
            raise ForgeError("unreachable", f"{clean(host, 100)} cannot be reached", hint=_NET) from None
        whole = kept if read <= most_bytes else kept.partition(b"\n")[2]
        return self.harmless(whole.decode("utf-8", "replace"))

    def harmless(self, text: str) -> str:
        """A text as it will be sent: for comparing it with what is there."""
        return masked(text, self._token)

    def pages(self, path: str, *, parameters: Mapping[str, Any] | None = None, within: str = "") -> Iterator[object]:
        """The items of all pages of a list; ``within`` is the member that holds them. Raises `ForgeError`."""
        said = self.ask("GET", path, parameters={**(parameters or {}), "per_page": PER_PAGE})
        for _ in range(MOST_PAGES):
            items = said.data.get(within) if within and isinstance(said.data, dict) else said.data
            if not isinstance(items, list):
                raise ForgeError("server", f"{self.host} did not answer with a list", hint=_PROXY)
            yield from items
            if not said.next:
                return
            said = self.ask("GET", said.next)
        raise ForgeError("invalid", f"{self.host} has more than {MOST_PAGES * PER_PAGE} items at {path}")

    def graphql(self, document: str, variables: Mapping[str, object]) -> object:
        """What a GraphQL document gives. Raises `ForgeError`."""
        said = self.ask("POST", self._requester().graphql_url, body={"query": document, "variables": dict(variables)})
        try:
            told = msgspec.convert(said.data, _GraphQL)
        except msgspec.ValidationError:
            raise ForgeError("server", f"{self.host} did not answer as GraphQL does", hint=_PROXY) from None
        if told.errors:
            first = told.errors[0]
            kind, hint = _GRAPHQL.get(first.type, ("invalid", ""))
            raise ForgeError(kind, f"{self.host} refused: {clean(first.message, 200)}", hint=hint)
        return told.data

    # --- one try -----------------------------------------------------------------------------------------------------

    def _once(self, verb: str, path: str, parameters: Mapping[str, Any] | None, body: object) -> Said:
        import requests.exceptions as wrong

        requester = self._requester()
        key = f"{path}?{sorted((parameters or {}).items())}" if verb == "GET" else ""
        known = self._known.get(key)
        headers = {"If-None-Match": known[0]} if known is not None else {}
        try:
            status, answer, text = requester.requestJson(
                verb, path, parameters=dict(parameters or {}), headers=headers, input=body
            )
        except (wrong.RequestException, OSError, RuntimeError, ValueError, OverflowError) as error:
            raise self._unreached(error) from error
        if status == 304 and known is not None:
            return known[1]
        if not 200 <= status < 300:
            raise self._refused(status, answer, text)
        said = Said(self._decoded(text), _next(answer.get("link", "")))
        if key and (tag := answer.get("etag")):
            self._known[key] = (tag, said)
        return said

    def _decoded(self, text: str) -> object:
        try:
            return msgspec.json.decode(text) if text else None
        except _NO_JSON:
            raise _Later(
                ForgeError("server", f"{self.host} answered with something that is no JSON", hint=_PROXY), True
            ) from None

    def _unreached(self, error: Exception) -> _Later | ForgeError:
        """Why there was no answer. Messages of others are left out, for they may quote a header."""
        import requests.exceptions as wrong

        if isinstance(error, wrong.SSLError):
            return ForgeError("unreachable", f"the certificate of {self.host} cannot be verified", hint=_CERTIFICATE)
        if isinstance(error, wrong.ConnectTimeout):
            return _Later(ForgeError("unreachable", f"{self.host} cannot be reached: no answer in time", hint=_NET))
        if isinstance(error, wrong.Timeout):
            return _Later(ForgeError("unreachable", f"{self.host} did not answer in time", hint=_NET), True)
        if isinstance(error, wrong.ConnectionError):
            never = "NewConnectionError" in str(error) or "NameResolutionError" in str(error)
            return _Later(ForgeError("unreachable", f"{self.host} cannot be reached", hint=_NET), not never)
        if isinstance(error, RuntimeError):  # PyGithub's word for a redirection to another host or protocol
            return ForgeError("unreachable", f"{self.host} sends its callers to another address", hint=_MOVED)
        return _Later(ForgeError("unreachable", f"{self.host} broke off its answer", hint=_NET), True)

    def _refused(self, status: int, headers: Mapping[str, str], text: str) -> _Later | ForgeError:
        words = _words(text)
        limited = _limited(status, headers, words)
        if limited is not None:
            until = datetime.fromtimestamp(time.time() + limited, UTC)
            return _Later(
                ForgeError(
                    "rate_limited",
                    f"{self.host} allows no more requests until {until:%H:%M:%S} UTC",
                    hint="wait until then and type it again",
                    until=until,
                ),
                seconds=limited,
            )
        said = f"{self.host} answered {status}" + (f": {words}" if words else "")
        if status >= 500:
            return _Later(ForgeError("server", said, hint="try again later: its status page may say more"), True)
        if 300 <= status < 400:
            return _SentOn(status, headers.get("location", ""))
        kind, hint = _KINDS.get(status, ("invalid", ""))
        return ForgeError(kind, said, hint=hint)

    def _requester(self) -> Requester:
        if self._opened is None:
            import logging

            from github import Auth, Github

            logging.getLogger("github").setLevel(logging.CRITICAL)  # it would log whole bodies
            self._opened = Github(
                base_url=self._api,
                auth=Auth.Token(self._token),
                timeout=self._silence_seconds,
                retry=None,  # its own honours a limit however long that is, and repeats a POST that may have been done
                seconds_between_requests=0,
                seconds_between_writes=self._pause_seconds,
                user_agent="orchconverge",
            ).requester
        return self._opened


_NET = "is the network up? Type it again once it is"
_PROXY = "is a proxy or a sign-in page between? Type it again once it is gone"
_CERTIFICATE = "REQUESTS_CA_BUNDLE=FILE names the certificates to trust"
_MOVED = "was it renamed? `git remote set-url` with its new address"


class _Later(Exception):
    """A failure that may pass. ``perhaps_done``: the request may have been carried out; ``seconds`` to wait, if told."""

    def __init__(self, error: ForgeError, perhaps_done: bool = False, *, seconds: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.perhaps_done = perhaps_done
        self.seconds = seconds


class _SentOn(ForgeError):
    """Another address, ``to``, has what was asked for."""

    def __init__(self, status: int, to: str) -> None:
        super().__init__("not_found", f"the repository has moved ({status})", hint=_MOVED)
        self.to = to


def _next(link: str) -> str:
    found = _NEXT.search(link)
    return found[1] if found else ""


def _parts(url: str) -> tuple[str, str]:
    """The scheme and the host of an address, both empty if it is none."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or ""
    except ValueError:
        return "", ""


def _words(text: str) -> str:
    """GitHub's own words for a refusal, and the first of its reasons."""
    try:
        told = msgspec.json.decode(text)
    except _NO_JSON:
        return ""
    if not isinstance(told, dict):
        return ""
    reasons = told.get("errors")
    first = reasons[0] if isinstance(reasons, list) and reasons else None
    named = (first.get("message") or f"{first.get('field')}: {first.get('code')}") if isinstance(first, dict) else first
    return clean(": ".join(str(part) for part in (told.get("message"), named) if part), 200)


def _limited(status: int, headers: Mapping[str, str], words: str) -> float | None:
    """Seconds until a rate limit ends; ``None`` if this is none.

    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
    """
    if status not in (403, 429):
        return None
    if told := headers.get("retry-after"):
        return _seconds(told)
    if headers.get("x-ratelimit-remaining") == "0" and _NUMBER.fullmatch(reset := headers.get("x-ratelimit-reset", "")):
        return min(max(1.0, int(reset) - time.time() + 1.0), MOST_SECONDS)
    return SECONDARY_SECONDS if status == 429 or "rate limit" in words.lower() else None


def _seconds(told: str) -> float:
    """`Retry-After` in seconds: a number, or a date (RFC 9110, 10.2.3)."""
    if _NUMBER.fullmatch(told.strip()):
        return min(float(told), MOST_SECONDS)
    try:
        return min(max(1.0, parsedate_to_datetime(told).timestamp() - time.time()), MOST_SECONDS)
    except (ValueError, TypeError, OverflowError):
        return SECONDARY_SECONDS
