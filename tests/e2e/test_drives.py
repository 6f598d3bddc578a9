"""The two live drives of the seed: many minds, one lock, with real code, and real tests that run in fresh trees."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchconverge.adapters.ledger import verify
from orchconverge.core import events as e
from orchconverge.core.state import Phase
from tests.e2e import forked
from tests.e2e.lab import COMMAND, Lab

pytestmark = [pytest.mark.tmux, pytest.mark.slow, pytest.mark.timeout(300)]
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "lib"


def put(lab: Lab, files: dict[str, str], message: str) -> None:
    """Commit files on main, and push it."""
    for name, text in files.items():
        path = lab.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", message)
    lab.git("push", "-q")


def run(lab: Lab, *words: str, code: int = 0) -> None:
    """Run the command line to its end in a child of this process, which has to be this one."""
    ended = forked.run(lab, *words, seconds=110.0)
    assert ended == code, f"{words} ended with {ended}\n{lab.told()}"


# --- the first: three minds on one task --------------------------------------------------------------------------------


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What `scripts/demo --drive` converges."""
    if not SCRIPTS.exists():
        pytest.skip("runs from the source tree")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    spec = importlib.util.spec_from_file_location("drive", SCRIPTS / "drive.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_first_drive_the_best_whole_is_grafted_and_the_best_tests_of_a_loser_on_top(
    lab: Lab, sample: ModuleType
) -> None:
    put(lab, sample.FILES, "settings that nobody can read yet")
    (lab.root / "target.toml").write_text(sample.TARGET)
    engine = ("--engine", "scripted", "--script", str(lab.script(*sample.SCRIPT["minds"])), "--foreground")
    run(lab, "declare", "--target", "../target.toml", code=0)
    run(lab, "open", "conf", "--minds", "3", *engine, code=5)

    spawned = {fact.approach: fact for fact in lab.facts(e.BranchSpawned)}
    assert list(spawned) == ["minimal", "library-first", "state machine"]
    assert len({fact.base for fact in spawned.values()}) == 1
    met = {fact.branch: {x.criterion for x in fact.evidence if x.met == "yes"} for fact in lab.facts(e.BranchCandidate)}
    minimal, library, machine = (fact.branch for fact in spawned.values())
    assert met == {
        minimal: {"read", "own"},
        library: {"read", "strict", "own"},
        machine: {"read", "strict", "own"},
    }
    start = lab.git("rev-parse", "orchconverge/conf")
    assert start == lab.git("rev-parse", "main")

    run(lab, "graft", library, code=0)
    why = "forty lines that the standard library has"
    run(lab, "prune", minimal, "--reason", "a # in quotes is no comment", code=0)
    run(lab, "prune", machine, "--reason", why, "--residue", "its malformed cases are the best of the three", code=0)

    # A part of a loser is gated like a whole: what the winner does not read is not taken, and the target stays.
    tip = lab.git("rev-parse", "orchconverge/conf")
    refused = lab.run("graft", minimal, "--only", "tests/own/test_words.py", "--reason", "words are nice", code=2)
    assert "lost: own" in refused.stderr
    assert lab.git("rev-parse", "orchconverge/conf") == tip
    wanted = "tests/own/test_malformed.py"
    assert "--reason" in lab.run("graft", machine, "--only", wanted, code=2).stderr
    run(lab, "graft", machine, "--only", wanted, "--reason", "what the winner's tests leave out", code=0)
    run(lab, "harvest", "conf", "--residue", "it is a part of TOML", "--frontier", "Are tables wanted?", code=0)

    [grafted], [part] = lab.facts(e.BranchGrafted), lab.facts(e.ResidueGrafted)
    assert (grafted.branch, grafted.decidedBy.split("(")[0]) == (library, "person")
    assert (part.branch, part.paths, part.reason) == (machine, (wanted,), "what the winner's tests leave out")
    for landed in (grafted, part):
        assert {x.criterion for x in landed.evidence if x.met == "yes"} == {"read", "strict", "own"}
        assert {x.tree for x in landed.evidence} == {lab.git("rev-parse", f"{landed.mergeCommit}^{{tree}}")}
    assert {fact.branch: fact.reason for fact in lab.facts(e.BranchPruned)}[machine] == why
    assert lab.git("show", f"orchconverge/conf:{wanted}") == lab.git(
        "show", f"refs/orchconverge/keep/{machine}:{wanted}"
    )
    assert "import tomllib" in lab.git("show", "orchconverge/conf:conf/parser.py")

    # The next wave begins from there, at once, and is told what was learned and what is still asked.
    run(lab, "open", "conf", "--minds", "1", "--approach", "from JSON", *engine, code=5)
    last = lab.facts(e.BranchSpawned)[-1]
    assert (last.approach, last.base) == ("from JSON", part.mergeCommit)
    brief = (lab.minds / "given" / last.gitBranch.removeprefix("orchconverge/") / "brief.md").read_text()
    for told in (
        "Take this one, and no other: from JSON",
        "its malformed cases are the best of the three",
        "it is a part of TOML",
        "Should an error name the line?",
        "Are tables wanted?",
        "- read: met.",
        "- write: not met.",
    ):
        assert told in brief
    assert not re.search(r"\bconf\.\d{1,3}\b", brief)  # trees that are checked are called by their id

    run(lab, "graft", last.branch, code=0)
    run(lab, "resume", "conf", "--final", "push", "--foreground", code=0)
    assert lab.subjects("orchconverge/conf") == [
        f"conf ({library})",
        f"conf (a part of {machine})",
        f"conf ({last.branch})",
        "docs: convergence report of conf",
    ]
    trailers = lab.git("log", "--format=%(trailers:only,unfold)", f"{start}..orchconverge/conf")
    assert f"Orchconverge-Residue-Of: {machine}\n" in trailers
    assert "Orchconverge-Reason: what the winner's tests leave out" in trailers
    assert lab.state().basins["conf"].phase == "converged"
    assert lab.git("status", "--porcelain") == ""
    assert lab.git("rev-parse", "main") == start


# --- the second: six minds build a command-line tool --------------------------------------------------------------------

DISPATCH = '''"""jot: notes on the command line."""

import sys

COMMANDS = {
}


def main(words):
    if not words or words[0] not in COMMANDS:
        print("usage: jot", "|".join(sorted(COMMANDS)), file=sys.stderr)
        return 2
    return COMMANDS[words[0]](words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''
HEAD = """import os
import subprocess
import sys
import tempfile
import unittest


def jot(*words, file):
    ran = subprocess.run([sys.executable, "-m", "jot", *words], env={**os.environ, "JOT": file}, capture_output=True, text=True)
    return ran.returncode, ran.stdout


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = folder.name + "/notes"
"""
TOOL = {
    "jot/__init__.py": "",
    "jot/__main__.py": DISPATCH,
    ".gitignore": "__pycache__/\n",
    "tests/__init__.py": "",
    "tests/case.py": HEAD,
    "tests/test_core.py": """from jot import store
from tests.case import Case


class Core(Case):
    def test_what_was_noted_is_there(self):
        store.note(self.file, "one")
        store.note(self.file, "two")
        self.assertEqual(store.notes(self.file), ["one", "two"])

    def test_nothing_was_noted(self):
        self.assertEqual(store.notes(self.file), [])
""",
    "tests/test_lines.py": """from jot import store
from tests.case import Case


class Lines(Case):
    def test_a_note_of_two_lines_is_one_note(self):
        store.note(self.file, "one\\ntwo")
        self.assertEqual(store.notes(self.file), ["one\\ntwo"])
""",
    "tests/test_add.py": """from jot import store
from tests.case import Case, jot


class Add(Case):
    def test_words_become_a_note(self):
        self.assertEqual(jot("add", "buy", "tea", file=self.file), (0, ""))
        self.assertEqual(store.notes(self.file), ["buy tea"])
""",
    "tests/test_list.py": """from jot import store
from tests.case import Case, jot


class List(Case):
    def test_notes_are_numbered(self):
        store.note(self.file, "tea")
        store.note(self.file, "milk")
        self.assertEqual(jot("list", file=self.file), (0, "1 tea\\n2 milk\\n"))
""",
    "tests/test_count.py": """from jot import store
from tests.case import Case, jot


class Count(Case):
    def test_notes_are_counted(self):
        store.note(self.file, "tea")
        self.assertEqual(jot("count", file=self.file), (0, "1\\n"))
""",
}
MIND = r'''
import json, os, re, subprocess, sys, time
from pathlib import Path

PLAIN = """from pathlib import Path


def note(file, text):
    with Path(file).open("a") as out:
        print(text, file=out)


def notes(file):
    return Path(file).read_text().splitlines() if Path(file).exists() else []
"""
STORES = {
    "plain lines": PLAIN,
    "JSON lines": PLAIN.replace("from pathlib", "import json\nfrom pathlib")
    .replace("print(text,", "print(json.dumps(text),")
    .replace("Path(file).read_text().splitlines()", "[json.loads(x) for x in Path(file).read_text().splitlines()]"),
    "a database": """import sqlite3


def opened(file):
    base = sqlite3.connect(file)
    base.execute("create table if not exists notes (text)")
    return base


def note(file, text):
    with opened(file) as base:
        base.execute("insert into notes values (?)", (text,))
    base.close()


def notes(file):
    base = opened(file)
    found = [text for (text,) in base.execute("select text from notes order by rowid")]
    base.close()
    return found
""",
}
RUN = "import os\n\nfrom jot import store\n\n\ndef run(words):\n    {}\n    return 0\n"
COMMANDS = {
    "add": RUN.format('store.note(os.environ["JOT"], " ".join(words))'),
    "list": RUN.format('for n, text in enumerate(store.notes(os.environ["JOT"]), 1):\n        print(n, text)'),
    "count": RUN.format('print(len(store.notes(os.environ["JOT"])))'),
}
root, meeting, brief = Path(sys.argv[1]), sys.argv[2], sys.stdin.read()
approach = re.search("no other(?: .*)?: (.*)", brief)[1]
before = re.search("git diff ([0-9a-f]{40}) ([0-9a-f]{40})", brief)


def git(*words, **how):
    return subprocess.run(["git", *words], check=True, capture_output=True, **how).stdout


def together():
    """Go on once three minds are here."""
    (root / meeting).mkdir(exist_ok=True)
    (root / meeting / str(os.getpid())).touch()
    while len(list((root / meeting).iterdir())) < 3:
        time.sleep(0.01)


seen = {"brief": brief, "env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv, "tree": sorted(os.listdir())}
(root / "seen").mkdir(exist_ok=True)
(root / "seen" / f"{os.getpid()}.json").write_text(json.dumps(seen))
if approach in STORES:
    together()
    Path("jot/store.py").write_text(STORES[approach])
    done = "core"
else:
    done = re.search("one command: (.*)", approach)[1]
    if before is None:
        together()
        Path(f"jot/{done}.py").write_text(COMMANDS[done])
    else:  # all that it knows of the first work is what the brief says
        assert "`jot/__main__.py`" in brief, brief
        git("apply", "--index", "-", input=git("diff", *before.groups(), "--", f"jot/{done}.py"))
    main = Path("jot/__main__.py")
    text = main.read_text().replace("COMMANDS = {\n", f'COMMANDS = {{\n    "{done}": {done}.run,\n')
    main.write_text(text.replace("import sys\n\n", f"import sys\n\nfrom jot import {done}\n", 1))
git("add", "-A")
git("commit", "-q", "-m", f"{done}\n\nCriterion: {done}")
Path(os.environ["ORCHCONVERGE_REPORT"]).write_text(json.dumps({"summary": f"{done} is there"}))
'''
COMMANDS = ("add", "list", "count")


def criterion(name: str) -> tuple[str, str]:
    """A criterion that is a test file."""
    return ("--criterion", f"{name}=python3 -m unittest tests.test_{name}")


def opening(lab: Lab, basin: str, meeting: str, *words: str) -> list[str]:
    """The words that open a wave of the program above; its minds wait for one another at ``meeting``."""
    argv = f"{lab.program(MIND)} {lab.root} {meeting}"
    return ["open", basin, *words, "--engine", "command", "--argv", argv, "--foreground"]


def seen_by_minds(lab: Lab) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (lab.root / "seen").iterdir()]


def test_the_second_drive_six_minds_build_a_tool_through_real_conflicts(lab: Lab) -> None:
    put(lab, TOOL, "a tool that can do nothing yet")
    lab.git("branch", "product")
    run(lab, "declare", "core", "--into", "product", *criterion("core"), *criterion("lines"), code=0)
    ways = ("plain lines", "JSON lines", "a database")
    run(lab, *opening(lab, "core", "first", "--minds", "3"), *(w for way in ways for w in ("--approach", way)), code=5)
    unmet = {f.branch: [x.criterion for x in f.evidence if x.met == "no"] for f in lab.facts(e.BranchCandidate)}
    assert unmet == {"core.1": ["lines"], "core.2": [], "core.3": []}
    run(lab, "graft", "core.2", code=0)
    run(lab, "prune", "core", "--others", code=0)
    assert [lab.state().branches[f"core.{n}"].phase for n in (1, 3)] == [Phase.PRUNED] * 2

    # Three controllers at once, each with a mind of its own that has met the two others before it writes a line.
    for name in COMMANDS:
        run(lab, "declare", name, "--into", "product", *criterion(name), *criterion("core"), code=0)
    begin = len(lab.kinds())
    running = [
        subprocess.Popen(
            [*COMMAND, *opening(lab, name, "second", "--minds", "1", "--approach", f"one command: {name}")],
            cwd=lab.repo,
            env=lab.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in COMMANDS
    ]
    said = [each.communicate(timeout=100) for each in running]
    assert [each.returncode for each in running] == [5, 5, 5], said
    facts = lab.replayed()[0][begin:]
    assert len({fact.controller.pid for fact in facts if isinstance(fact, e.RunStarted)}) == 3
    spans = {n: [f.seq for f in facts if getattr(f, "basin", "") == n] for n in COMMANDS}
    assert max(span[0] for span in spans.values()) < min(span[-1] for span in spans.values())
    assert [fact.seq for fact in lab.replayed()[0]] == list(range(1, len(lab.kinds()) + 1))
    assert verify(lab.state_dir).exit_code == 0
    told_of_no_other(lab)

    # One after another onto one target. Whoever comes later meets what the first one wrote into the same lines.
    run(lab, "graft", "add.1", code=0)
    for name in ("list", "count"):
        tip = lab.git("rev-parse", "product")
        refused = lab.run("graft", f"{name}.1", code=2)
        assert "conflict in jot/__main__.py" in refused.stderr
        assert f"orchconverge retry {name}.1" in refused.stderr
        assert lab.git("rev-parse", "product") == tip
        run(lab, "retry", f"{name}.1", "--foreground", code=5)
        again = lab.state().branches[f"{name}.2"]
        assert (again.retries, again.base, again.phase) == (f"{name}.1", tip, Phase.CANDIDATE)
        run(lab, "graft", f"{name}.2", code=0)
        run(lab, "prune", f"{name}.1", "--reason", "made again", code=0)
    told_of_no_other(lab)
    assert [(fact.branch, fact.conflicts) for fact in lab.facts(e.GraftRefused)] == [
        ("list.1", ("jot/__main__.py",)),
        ("count.1", ("jot/__main__.py",)),
    ]
    assert [fact.branch for fact in lab.facts(e.BranchGrafted)] == ["core.2", "add.1", "list.2", "count.2"]

    tool = lab.root / "tool"
    lab.git("clone", "-q", "-b", "product", str(lab.repo), str(tool), cwd=lab.root)
    env = {**lab.env, "JOT": str(lab.root / "notes")}

    def jot(*words: str) -> str:
        ran = [sys.executable, "-B", "-m", "jot", *words]
        return subprocess.run(ran, cwd=tool, env=env, capture_output=True, text=True, check=True).stdout

    jot("add", "buy", "tea")
    jot("add", "drink it\nslowly")
    assert (jot("list"), jot("count")) == ("1 buy tea\n2 drink it\nslowly\n", "2\n")


def told_of_no_other(lab: Lab) -> None:
    """No mind's brief, environment, words or folder name a branch, a number, a session or a folder of a mind."""
    own = {fact.worktree: fact.gitBranch.removeprefix("orchconverge/") for fact in lab.facts(e.BranchSpawned)}
    saw = seen_by_minds(lab)
    assert len(saw) == len(own)
    for mind in saw:
        text = json.dumps(mind)
        others = [name for path, name in own.items() if path != mind["cwd"]]
        assert own[mind["cwd"]] in text
        assert [name for name in others if name in text] == []
        assert re.findall(r"\b(?:core|add|list|count)[.-]\d{1,3}\b|mind-\w+|convergence-\w+", text) == []
        assert not [name for name in mind["env"] if name == "TMUX" or name == "TMUX_PANE"]
