"""The real agent CLIs as reviewers, each with a scripted model on loopback: they read, find, score, and change nothing.

What a model that follows a script cannot show is how good a review is: only that one is asked for, bounded and heard.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchconverge.adapters.engines import ENGINES
from orchconverge.core import events as e
from tests.e2e.lab import Lab, meets, met, mind
from tests.e2e.test_reviewdeep import BAD, finding, steps, writes
from tests.tools.agents import Agent, installed
from tests.tools.scripted_model import Act, Say, model, read, run, write

pytestmark = [pytest.mark.engines, pytest.mark.tmux, pytest.mark.timeout(600)]
HAVE_A_SHELL = ("claude", "codex")
"""The others are not even offered one."""


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_it_reviews_in_tracks_scores_and_may_change_nothing(lab: Lab, name: str) -> None:
    agent: Agent = installed(name)

    def tree_of(prompt: str) -> tuple[str, str]:
        tree = re.search(r"^The tree as it is after the change.*: (/.+)$", prompt, re.MULTILINE)
        answer = re.search(r"^ +(/\S+/answer\.json)$", prompt, re.MULTILINE)
        assert tree, prompt
        assert answer, prompt
        return tree[1], answer[1]

    def reviews(prompt: str) -> Sequence[Act]:
        there, answer = tree_of(prompt)
        found = [finding(path=f"{there}/total.py")] if "change: correctness" in prompt else []
        stolen = run(
            f"cd {there} && git push {lab.remote} HEAD:refs/heads/stolen; git -C {there} push origin HEAD:stolen"
        )
        return (
            read(f"{there}/total.py"),
            write(f"{there}/total.py", "mine\n"),
            *((stolen,) if name in HAVE_A_SHELL else ()),
            write(answer, json.dumps({"findings": found})),
            Say("reviewed"),
        )

    def scores(prompt: str) -> Sequence[Act]:
        _, answer = tree_of(prompt)
        return (write(answer, json.dumps({"scores": [{"finding": 1, "score": 90, "why": "seen"}]})), Say("scored"))

    words = (*met("a"), "--criterion", "review", "--max-attempts", "1", "--interval", "0", "--final", "review")
    with model([("You review a change", reviews), ("You check what a review found", scores)]) as server:
        agent.settle(lab, server.url)
        script = lab.script(mind(*meets("a"), *writes(BAD)))
        lab.run("goal", "--engine", f"scripted,{agent.spec}", "--script", script, *words, code=0)
        lab.wait(seconds=300, code=3)
    [step] = steps(lab)
    assert step.status == "done", step
    assert [(x.criterion, x.met) for x in step.results] == [("review", "no")]
    assert [(one["path"], one["line"], one["track"], one["score"]) for one in step.findings] == [
        ("total.py", 2, "correctness", 90)
    ]
    assert "review is not met: total.py:2 critical" in lab.facts(e.RunStopped)[-1].text
    assert "stolen" not in lab.git("branch", "--list", cwd=lab.remote)
    asked = {json.loads(path.read_text())["judge"]: path for path in (lab.minds / "steps").glob("*.review.*/who.json")}
    assert set(asked) == {agent.spec}
    for who in (lab.minds / "steps").glob("*.review.*/who.json"):  # each tried to, and was not let
        acts = ENGINES[name]({}).read(who.with_name("log.head").read_bytes()).acts
        writes_ = {Path(act.target).name: act.ok for act in acts if act.kind == "write"}
        assert writes_.get("total.py", False) is False
        assert writes_["answer.json"] is True
