"""What the last steps push and write: what was judged and nothing else, and through no link."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchconverge.adapters.forge_local import Local
from orchconverge.app.closing import REPORTS, Closing
from orchconverge.app.finalizer import told, write_report
from orchconverge.app.pushl import pushl
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Sha
from orchconverge.core.values import Settings
from orchconverge.errors import Refused
from tests.fakes.git import MemoryGit
from tests.fakes.simulation import Simulation, simulate
from tests.fakes.story import plain

TARGET = "topic"


class Converged:
    """A run that converged, its target as it was judged, nothing pushed yet."""

    def __init__(self, state: Path, **changes: object) -> None:
        self.done: Simulation = simulate(plain("fresh", minds=("gain all",)))
        self.basin: Basin = self.done.basin
        assert self.basin.run is not None
        assert self.basin.tip is not None
        given: Settings = replace(self.basin.run.settings, **changes)
        self.run: Run = replace(self.basin.run, settings=given)
        self.judged: Sha = self.basin.tip.head
        self.store = self.done.store
        self.store.move(f"refs/heads/{TARGET}", self.judged, by="test")
        self.there = self.store.pushed["origin"]
        self.there.clear()
        git = MemoryGit(self.store, self.done.trees)

        def record(basin: Basin, run: Run) -> Local:
            path = state / "pr" / f"{basin.id}.json"
            return Local(path, basin=basin.id, base="main", resolve=lambda name: git.resolve(f"refs/heads/{name}"))

        self.closing = Closing(ledger=self.done.reader, git=git, state=state, forge=record, record=record)


def test_exactly_what_was_judged_is_pushed(tmp_path: Path) -> None:
    made = Converged(tmp_path)
    assert pushl(made.closing, made.basin, made.run, ()).status == "done"
    assert made.there == {TARGET: made.judged}


def test_a_target_that_moved_since_is_not_pushed(tmp_path: Path) -> None:
    made = Converged(tmp_path)
    now = made.store.commit_away(TARGET, {"late": "x"}, "by hand", by="ann")
    result = pushl(made.closing, made.basin, made.run, ())
    assert result.status == "failed"
    assert result.detail == f"the target moved (was {made.judged:.8}, is {now:.8}): resume checks it again"
    assert made.there == {}


def test_our_own_report_on_top_of_what_was_judged_is_pushed_along(tmp_path: Path) -> None:
    made = Converged(tmp_path)
    report = write_report(made.closing, made.basin, made.run, ())
    assert report.commit is not None
    assert made.store.commits[report.commit].parents == (made.judged,)
    made.there.clear()
    assert pushl(made.closing, made.basin, made.run, ()).status == "done"
    assert made.there == {TARGET: report.commit}


@pytest.mark.parametrize(
    ("path", "subject"), [("src/evil", "docs: convergence report of {}"), (f"{REPORTS}/x.md", "docs: mine")]
)
def test_only_our_own_report_passes_for_one(tmp_path: Path, path: str, subject: str) -> None:
    made = Converged(tmp_path)
    made.store.commit_away(TARGET, {path: "x"}, subject.format(made.basin.id), by="ann")
    assert pushl(made.closing, made.basin, made.run, ()).status == "failed"
    assert made.there == {}


def test_the_report_takes_no_unjudged_commit_along(tmp_path: Path) -> None:
    made = Converged(tmp_path)
    assert any(step.name == "pushl" and step.status == "done" for step in made.basin.chain.done)
    made.store.commit_away(TARGET, {"late": "x"}, "by hand", by="ann")
    result = write_report(made.closing, made.basin, made.run, ())
    assert result.status == "failed"
    assert "committed, not pushed: the target moved" in result.detail
    assert made.there == {}


def test_the_report_lists_the_commits_of_the_target_oldest_first(tmp_path: Path) -> None:
    made = Converged(tmp_path)
    now = made.store.commit_away(TARGET, {"late": "x"}, "by hand", by="ann")
    record = told(made.closing, made.basin, facts=(), now=datetime(2026, 11, 29, tzinfo=UTC))
    assert [one.commit for one in record.commits] == [made.judged, now]


def test_a_report_can_be_written_once_the_commit_it_began_on_is_gone(tmp_path: Path) -> None:
    made = Converged(tmp_path, base="f" * 40)
    basin = replace(made.basin, run=made.run)
    assert told(made.closing, basin, facts=(), now=datetime(2026, 11, 29, tzinfo=UTC)).commits == ()


def test_a_target_that_was_never_judged_is_not_pushed(tmp_path: Path) -> None:
    made = Converged(tmp_path)
    assert pushl(made.closing, replace(made.basin, tip=None), made.run, ()).status == "failed"
    assert made.there == {}


@pytest.mark.parametrize("link", ["docs", "docs/convergence-reports"])
def test_a_report_file_follows_no_link_out_of_the_tree(tmp_path: Path, link: str) -> None:
    checkout, elsewhere = tmp_path / "checkout", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (checkout / link).parent.mkdir(parents=True)
    (checkout / link).symlink_to(elsewhere)
    made = Converged(tmp_path / "state", report="file", checkout=str(checkout))
    with pytest.raises(Refused, match="cannot be written"):
        write_report(made.closing, made.basin, made.run, ())
    assert list(elsewhere.rglob("*")) == []
    (checkout / link).unlink()
    result = write_report(made.closing, made.basin, made.run, ())
    assert result.status == "done"
    assert result.path is not None
    assert (checkout / result.path).read_text().startswith("#")
