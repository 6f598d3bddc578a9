"""The forges that tests talk to: a GitHub that remembers (npm emulate), and GitHub's published contract (npm prism)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CACHE = Path(__file__).resolve().parents[2] / ".cache"
DESCRIPTION = CACHE / "octokit/node_modules/@octokit/openapi/generated/api.github.com.json"
OCTOKIT = CACHE / "octokit/node_modules"
PATIENCE = 90.0
"""Seconds for a server to answer: prism reads 13 MB of contract first, beside other tests."""

TOKENS = {"ann": "tok_ann_0123456789abcdef", "bob": "tok_bob_0123456789abcdef"}
SEED = f"""\
tokens:
  {TOKENS["ann"]}: {{login: ann, scopes: [repo, user]}}
  {TOKENS["bob"]}: {{login: bob, scopes: [repo]}}
github:
  users: [{{login: ann}}, {{login: bob}}]
  repos:
    - {{owner: ann, name: shop, language: Python, auto_init: true}}
"""


def program(name: str) -> Path:
    """An installed server. The test is skipped where there is none, and fails where all must be run."""
    found = CACHE / name / "node_modules/.bin" / name
    if not found.exists() or not shutil.which("node"):
        said = f"scripts/forges {name} installs it"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    return found


@contextmanager
def emulate(folder: Path) -> Iterator[str]:
    """A GitHub with the repository ann/shop; the base URL of its API. It lies in memory and is gone with it."""
    seed = folder / "seed.yaml"
    seed.write_text(SEED)
    port = free_port()
    argv = [str(program("emulate")), "--service", "github", "--port", str(port), "--seed", str(seed)]
    with _served(argv, folder / "emulate.log", port, folder):
        yield f"http://localhost:{port}"


@contextmanager
def prism(folder: Path) -> Iterator[str]:
    """What GitHub published: it answers with its own examples, and refuses what the contract has not."""
    port = free_port()
    argv = [str(program("prism")), "mock", "--host", "127.0.0.1", "--port", str(port), str(DESCRIPTION)]
    with _served(argv, folder / "prism.log", port, folder):
        yield f"http://127.0.0.1:{port}"


class Emulated:
    """What a person does on the emulator, in another window."""

    def __init__(self, api: str) -> None:
        self.api = api

    def call(self, verb: str, path: str, body: Any = None, who: str = "ann") -> Any:
        """One request, as somebody."""
        asked = urllib.request.Request(
            f"{self.api}{path}",
            method=verb,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"token {TOKENS[who]}"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def branch(self, name: str) -> None:
        """A branch where main is: what is pushed to our bare remote, this GitHub does not see."""
        main = self.call("GET", "/repos/ann/shop/branches/main")["commit"]["sha"]
        self.call("POST", "/repos/ann/shop/git/refs", {"ref": f"refs/heads/{name}", "sha": main})


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def _served(argv: list[str], log: Path, port: int, home: Path) -> Iterator[None]:
    env: Mapping[str, str] = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    with log.open("wb") as out:
        server = subprocess.Popen(argv, env=env, cwd=home, stdout=out, stderr=out, start_new_session=True)
    try:
        ends = time.monotonic() + PATIENCE
        while not _listens(port):
            assert server.poll() is None and time.monotonic() < ends, log.read_text(errors="replace")[-2000:]
            time.sleep(0.05)
        yield
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(10)


def _listens(port: int) -> bool:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as one:
            one.settimeout(1.0)
            if one.connect_ex((host, port)) == 0:
                return True
    return False
