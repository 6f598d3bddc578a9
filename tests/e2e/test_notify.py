"""A run that needs a person tells them: by a service on loopback and by a command, once, also after a restart."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.e2e.lab import Lab, meets, met, mind

pytestmark = pytest.mark.tmux

KEEPS = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read())"


class Service(ThreadingHTTPServer):
    """Keeps what is posted to it."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Post)

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.server_port}/"


class _Post(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.mark.slow
def test_a_candidate_at_the_lock_is_told_once_in_the_words_of_the_strip(lab: Lab, service: Service) -> None:
    pytest.importorskip("apprise")
    kept = lab.root / "kept"
    lab.env["ORCHCONVERGE_NOTIFY_URLS"] = service.url
    lab.env["ORCHCONVERGE_NOTIFY_COMMAND"] = json.dumps([sys.executable, "-c", KEEPS, str(kept)])
    lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), "--lock", "person", "--foreground", code=5)
    [need] = json.loads(lab.run("status", "--json", code=0).stdout)["needs_you"]
    lab.until(lambda: service.got and kept.exists() and kept.read_bytes().endswith(b"\n"))
    [post] = service.got
    assert post["title"] == "orchconverge: repo needs you"
    assert post["message"] == f"{need['sentence']}\n{need['command']}"
    notice = json.loads(kept.read_text())
    assert {name: notice[name] for name in ("kind", "basin", "branch", "sentence", "command")} == {
        name: need[name] for name in ("kind", "basin", "branch", "sentence", "command")
    }
    lab.run("--resume", "--foreground", code=5)
    lab.until(lambda: not [said for said in lab.processes().values() if "_notify" in said])
    assert (len(service.got), len(kept.read_text().splitlines())) == (1, 1)
    lab.run("--stop", "--cleanup")


@pytest.mark.slow
def test_what_does_not_get_through_is_a_line_of_the_log_and_holds_nobody_up(lab: Lab) -> None:
    lab.env["ORCHCONVERGE_NOTIFY_COMMAND"] = json.dumps([sys.executable, "-c", "raise SystemExit(3)"])
    script = lab.script(mind({"say": "no"}))
    lab.play("a is there", script, *met("a"), "--max-attempts", "1", "--final", "none", "--foreground", code=3)
    log = lab.state_dir / "logs" / "system.log"
    lab.until(lambda: f"a-is-there: notify.command {sys.executable} ended with 3" in log.read_text())


def test_a_repository_chooses_nobody_to_tell(lab: Lab) -> None:
    (lab.repo / "orchconverge.toml").write_text('[notify]\ncommand = ["touch", "canary"]\n')
    refused = lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), code=2)
    assert "sets notify, which a repository may not choose for you" in refused.stderr
    (lab.repo / "orchconverge.toml").unlink()
