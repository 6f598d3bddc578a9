"""What a person is told of: each need once, again when it comes again, never a secret; and what does not get through is said."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from orchconverge.adapters import notify as adapter
from orchconverge.adapters.notify import MISSING, Notifier, send
from orchconverge.core.needs import Need
from orchconverge.core.telling import Notice, key, notice, untold

AT = datetime(2026, 11, 29, 14, tzinfo=UTC)


def need(
    kind: str = "lock", *, basin: str = "mfa", branch: str | None = "mfa.2", at: datetime | None = AT, said: str = ""
) -> Need:
    sentence = said or f"Decide {branch} at the lock: 4 of 7 becomes 6 of 7"
    return Need(
        kind=kind, basin=basin, branch=branch, since=at, sentence=sentence, command=f"orchconverge lock {basin}"
    )


# --- once -------------------------------------------------------------------------------------------------------------


def test_a_need_is_the_same_in_other_numbers_and_another_at_another_time() -> None:
    assert key(need()) == key(need(said="Decide mfa.2 at the lock: 5 of 7 becomes 6 of 7"))
    others = [
        need(branch="mfa.3"),
        need(basin="tls"),
        need(kind="verdict"),
        need(at=AT.replace(hour=15)),
        need(at=None),
    ]
    assert len({key(need()), *map(key, others)}) == 6
    asked = [need("question", said=f"Answer: {what}?", at=None) for what in ("why", "how")]
    assert key(asked[0]) != key(asked[1])


def test_what_was_needed_before_anybody_listened_is_no_news() -> None:
    assert untold([need()], None) == ()
    assert untold([need()], []) == (need(),)
    assert untold([need(), need(branch="mfa.3")], [key(need())]) == (need(branch="mfa.3"),)


def test_a_notice_holds_no_secret() -> None:
    token = "ghp_" + "a" * 36
    what = notice(need(said=f"Answer the verdict on mfa: {token}"), f"shop-{token}")
    assert token not in what.title + what.body + msgspec.json.encode(what).decode()
    assert what.body == "Answer the verdict on mfa: ***\norchconverge lock mfa"


KEEPS = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read() + b'\\n')"


class Listener:
    """A notifier whose notices are kept as lines of a file."""

    def __init__(self, folder: Path) -> None:
        self.file, self.said = folder / "notices", list[str]()
        argv = (sys.executable, "-c", KEEPS, str(self.file))
        self.notifier = Notifier(folder / "state", repository="shop", argv=argv, say=self.said.append)

    def look(self, *found: Need) -> list[str]:
        """The branches of all that was sent so far."""
        self.notifier.look(found)
        for one in self.notifier.sent:
            assert one.wait(30) == 0
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [json.loads(line)["branch"] for line in lines]


def test_each_need_is_sent_once_by_whoever_sees_it_first(tmp_path: Path) -> None:
    one, other = Listener(tmp_path), Listener(tmp_path)
    assert one.look() == []
    assert one.look(need()) == ["mfa.2"]
    assert other.look(need()) == ["mfa.2"]
    assert Listener(tmp_path).look(need(), need(branch="mfa.3")) == ["mfa.2", "mfa.3"]
    assert one.look() == ["mfa.2", "mfa.3"]
    assert one.look(need()) == ["mfa.2", "mfa.3", "mfa.2"]
    assert one.said == other.said == []
    assert (tmp_path / "state" / "notified.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"a": 1}', b"[1]"])
def test_a_damaged_memory_says_nothing_twice(tmp_path: Path, damaged: bytes) -> None:
    listener = Listener(tmp_path)
    listener.look()
    (tmp_path / "state" / "notified.json").write_bytes(damaged)
    assert listener.look(need()) == []
    assert listener.look(need(), need(branch="mfa.3")) == ["mfa.3"]


def test_what_cannot_be_kept_or_started_is_said_and_raises_nothing(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    listener.look()
    missing = Notifier(tmp_path / "state", repository="shop", argv=("/no/such/program",), say=listener.said.append)
    missing.look([need()])
    (tmp_path / "state" / "notified.json").unlink()
    (tmp_path / "state" / "notified.json").symlink_to(tmp_path / "elsewhere")
    listener.notifier.look([need()])
    assert [said.partition(":")[0] for said in listener.said] == ["a notification could not be sent"] * 2


# --- sending ----------------------------------------------------------------------------------------------------------

WHAT = notice(need(), "shop")


def failed(*, urls: Sequence[str] = (), command: Sequence[str] = ()) -> list[str]:
    return list(send(WHAT, urls=urls, command=command))


def test_a_command_gets_the_notice_as_json_and_no_word_of_it_as_an_argument(tmp_path: Path) -> None:
    assert failed(command=(sys.executable, "-c", KEEPS, str(tmp_path / "got"))) == []
    assert msgspec.json.decode((tmp_path / "got").read_bytes(), type=Notice) == WHAT


def test_a_command_that_fails_hangs_or_is_not_there_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "COMMAND_SECONDS", 0.3)
    python = sys.executable
    assert failed(command=(python, "-c", "raise SystemExit(3)")) == [f"notify.command {python} ended with 3"]
    [late] = failed(command=(python, "-c", "import time; time.sleep(60)"))
    assert late.endswith("took longer than 0 s, and was ended")
    [missing] = failed(command=("/no/such/program",))
    assert missing == "notify.command /no/such/program could not be started: No such file or directory"


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
def test_an_address_that_fails_is_named_by_its_kind_alone() -> None:
    pytest.importorskip("apprise")
    unreachable, unknown, none = failed(urls=("json://user:secret@127.0.0.1:9/path", "nosuch://secret", "secret"))
    assert unreachable.startswith("notify by json://… failed: nobody was told that Decide mfa.2 at the lock")
    assert unknown == "notify: apprise knows no such address, nosuch://…"
    assert none.endswith(" ?://…")
    assert "secret" not in unreachable + unknown + none


def test_services_without_apprise_are_one_clear_line_and_the_command_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "find_spec", lambda name: None)
    lines = failed(urls=("json://127.0.0.1:9",), command=(sys.executable, "-c", KEEPS, str(tmp_path / "got")))
    assert lines == [MISSING]
    assert (tmp_path / "got").exists()


# --- absent extras ----------------------------------------------------------------------------------------------------


def test_an_extra_that_is_asked_for_and_absent_is_a_line_at_the_start_and_of_the_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchconverge import bootstrap
    from orchconverge.adapters import probes
    from orchconverge.config import Config, Loaded, Notify

    monkeypatch.setattr(probes, "find_spec", lambda name: None)
    config = Config(notify=Notify(urls=("json://127.0.0.1:9",)), otel=True)
    said: list[str] = []
    reader = bootstrap.reader(repository(tmp_path))
    loaded = Loaded(config, {}, reader.places, ())
    with bootstrap._listening(tmp_path, loaded, reader.ledger, said.append):
        pass
    assert said == [
        "notify is set, and apprise is not installed: pip install 'orchconverge[notify]'",
        "otel is set, and opentelemetry.sdk is not installed: pip install 'orchconverge[otel]'",
    ]
    found = list(probes.extras({"notify": True, "otel": False}))
    assert [(one.part, one.state, one.todo) for one in found] == [
        ("notify", "warning", "pip install 'orchconverge[notify]'")
    ]


def test_settings_that_ask_for_nothing_tell_nobody(tmp_path: Path) -> None:
    from orchconverge import bootstrap
    from orchconverge.config import Config, Loaded
    from tests.stories import Story

    reader = bootstrap.reader(repository(tmp_path))
    with bootstrap._listening(tmp_path, Loaded(Config(), {}, reader.places, ()), reader.ledger, pytest.fail) as heard:
        heard(Story().declare().start().stop("limit").facts[-1])
    assert not reader.places.state.exists()


def repository(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder
