"""A repository at the place of another one that is gone: nothing that the old one left is taken for the new one's."""

from __future__ import annotations

import shutil

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import Lab, meets, met, mind

pytestmark = [pytest.mark.tmux, pytest.mark.slow]


def test_a_repository_made_again_at_the_same_place_starts_its_own_minds_checks_and_steps(lab: Lab) -> None:
    first = lab.script(mind(*meets("a")))
    lab.play("both", first, *met("a", "b"), "--max-attempts", "1", "--final", "push", "--foreground", code=3)
    old = lab.git("rev-parse", "orchconverge/both", cwd=lab.remote)
    lab.repo.rename(lab.root / "gone")
    shutil.copytree(lab.root / "gone", lab.repo)
    shutil.rmtree(lab.repo / ".git" / "orchconverge")
    lab.git("worktree", "prune")
    for ref in lab.git(
        "for-each-ref", "--format=%(refname)", "refs/orchconverge", "refs/heads/orchconverge"
    ).splitlines():
        lab.git("update-ref", "-d", ref)
    lab.git("push", "-q", "origin", ":orchconverge/both")
    second = lab.script(mind(*meets("a"), *meets("b")), name="second.json")
    lab.play("both", second, *met("a", "b"), "--max-attempts", "1", "--final", "push", "--foreground", code=0)
    assert [fact.branch for fact in lab.facts(e.BranchGrafted)] == ["both.1"]
    assert lab.git("rev-parse", "orchconverge/both", cwd=lab.remote) not in ("", old)
