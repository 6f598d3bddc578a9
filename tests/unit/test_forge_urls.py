"""Which forge a remote means, and who may have which token."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchconverge.adapters.forge import found
from orchconverge.adapters.forge_github import GitHub
from orchconverge.adapters.forge_token import token_for
from orchconverge.adapters.forge_urls import address_from, address_of
from orchconverge.errors import Refused
from orchconverge.ports.forge import ForgeError

API = "https://api.github.com"


@pytest.mark.parametrize(
    ("url", "host", "name", "api"),
    [
        ("https://github.com/acme/shop.git", "github.com", "acme/shop", API),
        ("https://github.com/acme/shop/", "github.com", "acme/shop", API),
        ("https://user:secret@github.com/acme/shop", "github.com", "acme/shop", API),
        ("git@github.com:acme/shop.git", "github.com", "acme/shop", API),
        ("ssh://git@ssh.github.com:443/acme/shop.git", "github.com", "acme/shop", API),
        ("https://GitHub.com/acme/sh.op", "github.com", "acme/sh.op", API),
        ("git@code.example.org:acme/shop.git", "code.example.org", "acme/shop", "https://code.example.org/api/v3"),
        ("https://acme.ghe.com/acme/shop", "acme.ghe.com", "acme/shop", "https://api.acme.ghe.com"),
    ],
)
def test_a_remotes_url_names_a_repository(url: str, host: str, name: str, api: str) -> None:
    address = address_of(url)
    assert address is not None
    assert (address.host, f"{address.owner}/{address.name}", address.api) == (host, name, api)
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "/srv/git/shop.git",
        "../shop",
        "file:///srv/git/shop.git",
        "C:/git/shop",
        "https://github.com/shop",
        "https://gitlab.example/group/sub/shop.git",
        "https://github.com/acme/sh op",
        "https://github.com/acme/$(id)",
        "https://-oProxyCommand=x/acme/shop",
        "git@--upload-pack=x:acme/shop",
        "",
    ],
)
def test_what_names_no_repository_on_a_forge_is_none(url: str) -> None:
    assert address_of(url) is None


def test_a_setting_is_the_address_of_an_api() -> None:
    address = address_from("http://localhost:4000/repos/acme/shop")
    assert (address.host, address.api, address.path) == (
        "localhost:4000",
        "http://localhost:4000",
        "/repos/acme/shop",
    )
    assert address_from(f"{API}/repos/acme/shop").host == "github.com"
    assert address_from("https://code.example.org/api/v3/repos/acme/shop/").api == "https://code.example.org/api/v3"


@pytest.mark.parametrize(
    "setting",
    [
        "github.com/acme/shop",
        "https://github.com/acme/shop",
        "http://code.example.org/api/v3/repos/acme/shop",
        "https://me:secret@code.example.org/repos/acme/shop",
        "http://localhost.evil.example/repos/acme/shop",
    ],
)
def test_another_setting_is_refused(setting: str) -> None:
    with pytest.raises(Refused) as caught:
        address_from(setting)
    assert "secret" not in caught.value.message + caught.value.hint


@pytest.fixture
def gh(tmp_path: Path) -> Path:
    """A `gh` that knows one host, writes down how it was called, and like the real one lets variables win."""
    program = tmp_path / "gh"
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/calls\n'
        'test -n "$GH_TOKEN$GH_ENTERPRISE_TOKEN" && { echo "$GH_TOKEN$GH_ENTERPRISE_TOKEN"; exit; }\n'
        'test "$4" = --hostname=code.example.org || test "$3" = --hostname=code.example.org && echo stored && exit\n'
        "echo no oauth token >&2; exit 1\n"
    )
    program.chmod(0o755)
    return tmp_path


def env(gh: Path, **more: str) -> dict[str, str]:
    return {"PATH": f"{gh}:{os.environ['PATH']}", **more}


GITHUB, OTHER, EVIL = (f"https://{host}/acme/shop" for host in ("github.com", "code.example.org", "evil.example"))


@pytest.mark.parametrize(
    ("url", "given", "token"),
    [
        (GITHUB, {"GH_TOKEN": "one", "GITHUB_TOKEN": "two"}, "one"),
        (GITHUB, {"GITHUB_TOKEN": " two\n"}, "two"),
        (GITHUB, {"GH_TOKEN": ""}, None),
        (GITHUB, {"GH_TOKEN": "a b"}, None),
        (GITHUB, {"GH_ENTERPRISE_TOKEN": "three"}, None),
        (OTHER, {}, "stored"),
        (OTHER, {"GH_TOKEN": "one", "GH_ENTERPRISE_TOKEN": "three"}, "stored"),
        (OTHER, {"GH_ENTERPRISE_TOKEN": "three", "GH_HOST": "code.example.org"}, "three"),
        (EVIL, {"GH_TOKEN": "one", "GITHUB_TOKEN": "two", "GH_ENTERPRISE_TOKEN": "three"}, None),
    ],
)
def test_a_token_goes_to_the_host_that_it_is_meant_for(
    gh: Path, url: str, given: dict[str, str], token: str | None
) -> None:
    address = address_of(url)
    assert address is not None
    assert token_for(address, env(gh, **given)) == token


def test_what_a_person_named_in_the_settings_may_have_the_token(gh: Path) -> None:
    assert token_for(address_from("http://localhost:4000/repos/acme/shop"), env(gh, GH_TOKEN="one")) == "one"


def test_gh_is_asked_by_argv_for_one_host(gh: Path) -> None:
    assert token_for(address_from("https://code.example.org/api/v3/repos/a/b"), env(gh)) == "stored"
    assert (gh / "calls").read_text() == "auth token --hostname=code.example.org\n"


def test_the_forge_is_what_is_set_else_what_the_remote_means(gh: Path) -> None:
    token = env(gh, GH_TOKEN="one")

    def where(remote: str, setting: str = "") -> str | None:
        forge = found(remote, setting=setting, env=token)
        return forge.where if forge is not None else None

    assert where(GITHUB) == "github.com/acme/shop"
    assert where(OTHER) == "code.example.org/acme/shop"
    assert where(EVIL) is None
    assert where("/srv/git/shop.git") is None
    assert where(GITHUB, "local") is None
    assert where("/srv/git/shop.git", f"{API}/repos/acme/shop") == "github.com/acme/shop"


def test_without_a_token_it_is_said_where_to_get_one(gh: Path) -> None:
    with pytest.raises(ForgeError) as caught:
        found(GITHUB, setting="", env=env(gh))
    assert caught.value.kind == "unauthorised"
    assert "gh auth login --hostname github.com" in caught.value.hint


def test_what_is_pushed_to_a_fork_is_asked_for_by_its_owner(gh: Path) -> None:
    forge = found("git@github.com:me/shop.git", setting=f"{API}/repos/acme/shop", env=env(gh, GH_TOKEN="one"))
    assert isinstance(forge, GitHub)
    assert forge.head_owner == "me"
