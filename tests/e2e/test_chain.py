"""A person's own command in place of a step of the chain: an argv or a prompt, whatever it does, and whatever is killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import Lab, kill, meets, met, mind
from tests.e2e.terminal import Terminal
from tests.tools.agents import installed
from tests.tools.forge_stub import Stub, served
from tests.tools.forges import TOKENS
from tests.tools.scripted_model import Say, model, write
from tests.tools.scripted_model import run as run_

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

BRANCH = "orchconverge/a-is-there"
URL = "https://example.org/shop/pull/7"
PUSHES = f"""\
import json, os, subprocess, sys
git = lambda *words: subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()
head = git("rev-parse", "HEAD")
assert (git("branch", "--show-current"), head) == (os.environ["ORCHCONVERGE_TARGET"], os.environ["ORCHCONVERGE_HEAD"])
git("push", "-q", "origin", "HEAD")
word = {{"status": "done", "reason": "pushed " + " ".join(sys.argv[1:]), "url": "{URL}", "commit": head}}
json.dump(word, open(os.environ["ORCHCONVERGE_STEP_RESULT"], "w"))
"""


def own(lab: Lab, text: str) -> None:
    """The settings of the person."""
    path = lab.home / "config" / "orchconverge" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[chain]\n{text}\n")


def program(lab: Lab, text: str, *words: str) -> str:
    """A program of the person, as the list of words that a settings file has."""
    path = lab.root / "own.py"
    path.write_text(text)
    return json.dumps([sys.executable, str(path), *words])


def ended(lab: Lab, step: str = "pushl") -> e.StepEnded:
    return [fact for fact in lab.facts(e.StepEnded) if fact.step == step][-1]


def run(lab: Lab, *more: str) -> None:
    lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), "--final", "push", *more)


def test_an_argv_pushes_where_the_target_is_and_its_word_is_the_result(lab: Lab) -> None:
    own(lab, f"pushl = {program(lab, PUSHES, '--fast', '$(id); x')}")
    run(lab)
    lab.wait()
    step, head = ended(lab), lab.git("rev-parse", f"{BRANCH}~")  # the report stands on top
    assert (step.status, step.detail, step.url, step.commit) == ("done", "pushed --fast $(id); x", URL, head)
    assert lab.reports(BRANCH) != []  # it was pushed along, since the push was done
    told = lab.run("report", code=0).stdout
    assert f"| **Pull request** | [#7]({URL}), pushed --fast $(id); x |".replace("$", "\\$") in told
    assert "`/pushl`, replaced by `" in told
    record = json.loads(lab.run("report", "--format", "json", code=0).stdout)
    assert record["steps"][0]["by"].endswith("own.py --fast $(id); x")
    assert [one["fate"] for one in record["candidates"]] == ["grafted"]
    page = lab.root / "page.html"
    assert "the report is in" in lab.run("report", "a-is-there", "--format", "html", "--output", page, code=0).stdout
    assert page.read_text().startswith("<!doctype html>\n")
    assert "is no folder" in lab.run("report", "--output", lab.root / "no" / "page.md", code=2).stderr


def test_the_report_of_a_run_says_how_its_pull_request_stood(lab: Lab) -> None:
    with served(Stub()) as stub:
        lab.env |= {"ORCHCONVERGE_FORGE": f"{stub.url}/repos/ann/shop", "GH_TOKEN": TOKENS["ann"]}
        run(lab)
        lab.wait()
        [report] = lab.reports(BRANCH)
        row = f"| **Pull request** | open, no checks: [#1]({stub.pulls[0]['html_url']}), "
        assert row in lab.git("show", f"{BRANCH}:{report}", cwd=lab.remote)
    assert "| **Pull request** | [#1](" in lab.run("report", code=0).stdout  # alone it asks nobody


def test_where_the_target_is_checked_out_it_runs_there(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    own(lab, f"pushl = {program(lab, 'import os; print(os.getcwd()); ' + 'raise SystemExit(4)')}")
    run(lab)
    lab.wait()
    assert ended(lab).detail == f"exit 4, and nothing was written to ORCHCONVERGE_STEP_RESULT: {lab.repo}"


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("""word('{"status": "failed", "reason": "no route to host"}')""", "failed", "no route to host"),
        ("""word('{"status": "skipped", "reason": "nothing to push"}')""", "skipped", "nothing to push"),
        (
            """word('{"status": "fine"')""",
            "failed",
            "exit 0, and what it wrote to ORCHCONVERGE_STEP_RESULT cannot be read",
        ),
        ("""word('{"status": "done"}')""", "failed", "missing required field `reason`"),
        (
            """print('out of luck')""",
            "failed",
            "exit 0, and nothing was written to ORCHCONVERGE_STEP_RESULT: out of luck",
        ),
        (
            """word('{"status": "done", "reason": "x"}'); sys.exit(3)""",
            "failed",
            "it says that it is done, and ended with exit 3",
        ),
        (
            """print('ghp_' + 'a' * 36, 'z' * 280)""",
            "failed",
            "exit 0, and nothing was written to ORCHCONVERGE_STEP_RESULT: *** zz",
        ),
        ("""os.kill(os.getpid(), 9)""", "failed", "signal 9, and nothing was written"),
        ("""time.sleep(600)""", "failed", "it did not end within 1s"),
    ],
    ids=["fails", "skips", "nonsense", "half", "nothing", "contradicts itself", "tells a secret", "dies", "hangs"],
)
def test_whatever_it_does_the_step_ends_and_the_chain_goes_on(lab: Lab, text: str, status: str, said: str) -> None:
    begin = "import os, sys, time\nword = lambda text: open(os.environ['ORCHCONVERGE_STEP_RESULT'], 'w').write(text)\n"
    own(lab, f"pushl = {program(lab, begin + text)}\nminutes = {0.02 if 'sleep' in text else 1}")
    run(lab)
    lab.wait()
    step = ended(lab)
    assert (step.status, said in step.detail) == (status, True), step
    assert ended(lab, "report").status == "done"


def test_a_program_that_is_not_there_is_a_failed_step(lab: Lab) -> None:
    own(lab, 'pushl = ["no-such-program"]')
    run(lab)
    lab.wait()
    assert ended(lab).status == "failed"
    assert "no-such-program" in ended(lab).detail


def test_a_prompt_is_run_by_the_engine_and_its_word_is_the_result(lab: Lab) -> None:
    own(lab, 'pushl = "engine:/pushl --auto-label"')
    word = {"status": "done", "reason": "opened", "url": URL}
    theirs = mind({"usage": {"inputTokens": 70, "usd": 0.5}}, {"report": word}, approach="pushl")
    lab.play("a is there", lab.script(theirs, mind(*meets("a"))), *met("a"), "--final", "push")
    lab.wait()
    step = ended(lab)
    assert (step.status, step.detail, step.url) == ("done", "opened", URL)
    assert step.usage is not None
    assert step.usage.inputTokens == 70
    assert "| /pushl | 70 | 0 | 0 | $0.50 |" in lab.run("report", code=0).stdout


@pytest.mark.parametrize("pushes", [True, False], ids=["pushed", "did not push"])
def test_a_mind_that_wrote_no_word_is_held_against_what_git_shows(lab: Lab, pushes: bool) -> None:
    own(lab, 'pushl = "engine:/pushl"')
    text = (
        "import os, subprocess, sys\n"
        "said = sys.stdin.read()\n"
        f"work = 'echo yes > a.txt; git add -A; git commit -qm a'\n"
        f"step = '{'git push -q origin HEAD' if pushes else 'true'}'\n"
        "assert said == '/pushl' or len(said) > 100, said\n"
        "subprocess.run(['sh', '-c', step if said == '/pushl' else work], check=True)\n"
    )
    words = ("--engine", "command", "--argv", lab.program(text), "--interval", "0", "--final", "push")
    lab.run("a is there", *words, *met("a"), code=0)
    lab.wait()
    step = ended(lab)
    if pushes:
        head = lab.git("rev-parse", f"{BRANCH}~")
        assert (step.status, step.commit) == ("done", head)
        assert step.detail == f"/pushl ended well and wrote no result; origin has {BRANCH} at {head:.8}"
    else:
        assert step.status == "failed"
        assert step.detail == f"/pushl ended well and wrote no result; origin is not seen to have {BRANCH}"
        assert BRANCH not in lab.git("branch", cwd=lab.remote)  # and so the report was not pushed either


@pytest.mark.claude
@pytest.mark.timeout(300)
def test_a_slash_command_of_the_person_is_run_by_the_real_claude(lab: Lab) -> None:
    """Its own text, not ours, is what the model is asked, with what was written behind it."""
    path = lab.home / ".claude" / "commands" / "pushl.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("Push this branch the way I like it: $ARGUMENTS\n")
    own(lab, 'pushl = "engine:/pushl --auto-label"')
    work = (write("a.txt", "yes\n"), run_("git add -A && git commit -q -m a -m 'Criterion: a'"), Say("a is met."))
    pushes = (run_(f"git push -q origin {BRANCH}"), Say("pushed"))
    rules = [("the way I like it: --auto-label", lambda _: pushes), ("- a: not met", lambda _: work)]
    with model(rules) as server:
        installed("claude").settle(lab, server.url)
        lab.run("a is there", "--engine", "claude", "--interval", "0", *met("a"), "--final", "push", code=0)
        lab.wait(seconds=120)
    step, head = ended(lab), lab.git("rev-parse", f"{BRANCH}~")
    assert (step.status, step.commit) == ("done", head), step
    assert step.detail == f"/pushl --auto-label ended well and wrote no result; origin has {BRANCH} at {head:.8}"
    assert step.usage is not None
    assert step.usage.outputTokens > 0


def test_critical_findings_of_a_persons_own_review_open_one_more_attempt(lab: Lab) -> None:
    text = (
        "import json, os\n"
        "wrong = [{'path': 'a.txt', 'line': 1, 'severity': 'critical', 'title': 'b is missing'}]\n"
        "word = {'status': 'done', 'reason': 'read', 'findings': [] if os.path.exists('b.txt') else wrong}\n"
        "json.dump(word, open(os.environ['ORCHCONVERGE_STEP_RESULT'], 'w'))\n"
    )
    own(lab, f"reviewdeep = {program(lab, text)}")
    second = mind({"write": {"path": "a.txt", "text": "yes, and b\n"}}, *meets("b"), attempt=2)
    script = lab.script(mind(*meets("a"), attempt=1), second)
    lab.play("a is there", script, *met("a"), "--criterion", "review", "--final", "review")
    lab.wait()
    first, last = [fact for fact in lab.facts(e.StepEnded) if fact.step == "reviewdeep"]
    assert [(one.criterion, one.met) for one in (*first.results, *last.results)] == [
        ("review", "no"),
        ("review", "yes"),
    ]
    assert first.results[0].excerpt == "a.txt:1 critical: b is missing"
    assert len(lab.facts(e.AttemptEnded)) == 2


@pytest.mark.parametrize("form", ["prompt", "argv"])
def test_a_review_that_said_nothing_or_failed_meets_no_criterion(lab: Lab, form: str) -> None:
    value = program(lab, "raise SystemExit(1)") if form == "argv" else '"engine:/reviewdeep"'
    own(lab, f"reviewdeep = {value}")
    script = lab.script(mind({"say": "looks fine"}, approach="reviewdeep"), mind(*meets("a")))
    lab.play("a is there", script, *met("a"), "--criterion", "review", "--final", "review")
    lab.wait()
    [step] = [fact for fact in lab.facts(e.StepEnded) if fact.step == "reviewdeep"]
    assert [(one.criterion, one.met) for one in step.results] == [("review", "error")]
    assert lab.state().basins["a-is-there"].note == "could not be run here: review"


@pytest.mark.parametrize("form", ["argv", "prompt"])
def test_what_a_repository_puts_there_runs_only_once_a_person_allowed_it(lab: Lab, form: str) -> None:
    value = program(lab, PUSHES) if form == "argv" else '"engine:/pushl"'
    (lab.repo / "orchconverge.toml").write_text(f"[chain]\npushl = {value}\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "settings")
    script = lab.script(mind({"report": {"status": "done", "reason": "x"}}, approach="pushl"), mind(*meets("a")))
    words = ("a is there", "--engine", "scripted", "--script", str(script), "--interval", "0", "--final", "push")
    refused = lab.run(*words, *met("a"), code=5)
    assert "orchconverge.toml of this repository sets chain.pushl: " in refused.stderr
    assert lab.kinds() == ()
    with Terminal(lab, *words, *met("a")) as terminal:
        terminal.until("Allow it from now on?")
        terminal.type("y")
        terminal.end(0)
    lab.wait()
    assert ended(lab).status == "done"
    assert [fact.where for fact in lab.facts(e.ConsentGiven)] == ["orchconverge.toml"]


def waits(lab: Lab) -> Path:
    """A command that says that it runs, and then waits for a file."""
    text = (
        "import json, os, time\n"
        f"print(os.getpid(), file=open('{lab.root}/ran', 'a'), flush=True)\n"
        f"while not os.path.exists('{lab.root}/go'): time.sleep(0.02)\n"
        "json.dump({'status': 'done', 'reason': 'went'}, open(os.environ['ORCHCONVERGE_STEP_RESULT'], 'w'))\n"
    )
    own(lab, f"pushl = {program(lab, text)}")
    return lab.root / "ran"


def test_a_stop_ends_it(lab: Lab) -> None:
    ran = waits(lab)
    run(lab)
    lab.until(lambda: ran.exists() and ran.read_text().strip())
    lab.run("stop", code=0)
    pid = int(ran.read_text())
    lab.until(lambda: not Path(f"/proc/{pid}").exists())
    lab.run("stop", "--cleanup", code=0)


def test_a_step_that_was_lost_runs_it_once_more_and_never_beside_itself(lab: Lab) -> None:
    ran = waits(lab)
    run(lab)
    lab.until(lambda: ran.exists() and ran.read_text().strip())
    record = lab.record("steps/a-is-there.1.1.pushl")
    assert record is not None
    kill(record["pid"])
    kill(record["agent"])
    lab.until(lambda: len(ran.read_text().split()) == 2)
    assert int(ran.read_text().split()[0]) not in lab.processes()
    (lab.root / "go").touch()
    lab.wait()
    assert (ended(lab).status, ended(lab).detail) == ("done", "went")
    assert len(ran.read_text().split()) == 2
