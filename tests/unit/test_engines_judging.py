"""What each engine may as a judge: read the tree, write its answer, and nothing else, as far as it can be told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchconverge.acp_client.permission import refusal
from orchconverge.acp_client.spec import Spec
from orchconverge.adapters.engines import ENGINES
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch
from tests.tools.engines import brief, programs, settings

OWN, TREE = "/state/m/judge", "/trees/t-goal.j0123"
JUDGE: Brief = brief(
    report_path=Path(f"{OWN}/answer.json"), cwd=Path(OWN), branch="", approach="", judge="nice", reads=Path(TREE)
)


def launched(name: str, folder: Path, **more: object) -> Launch:
    agents = ("claude", "codex", "gemini", "opencode", "aider", "mini", "claude-agent-acp")
    engine = ENGINES[name]({"PATH": programs(folder, *agents)})
    given = settings(allow=("make",)) if not more else settings(**more)
    return engine.launch(JUDGE, given)


def test_claude_reads_and_is_let_write_in_its_own_folder_alone(tmp_path: Path) -> None:
    argv = launched("claude", tmp_path).argv
    allowed = argv[argv.index("--allowedTools") + 1 : argv.index("--add-dir")]
    assert allowed == ("Read", "Glob", "Grep")
    assert argv[argv.index("--add-dir") + 1] == OWN
    assert TREE not in argv


def test_codex_has_its_sandbox_around_its_own_folder_which_is_no_repository(tmp_path: Path) -> None:
    argv = launched("codex", tmp_path).argv
    assert argv[argv.index("--sandbox") + 1] == "workspace-write"
    assert "--skip-git-repo-check" in argv
    assert TREE not in argv


def test_gemini_has_the_tree_in_its_sight_and_rules_against_writing_there(tmp_path: Path) -> None:
    launch = launched("gemini", tmp_path)
    assert launch.argv[launch.argv.index(TREE) - 1] == "--include-directories"
    [rules] = launch.files.values()
    assert rules.count('decision = "deny"') == rules.count("[[rule]]") == 2
    assert "allow" not in rules


def test_opencode_reads_the_tree_and_runs_nothing(tmp_path: Path) -> None:
    config = json.loads(launched("opencode", tmp_path).env["OPENCODE_CONFIG_CONTENT"])
    granted = config["permission"]
    assert (granted["*"], granted["read"], "bash" in granted) == ("deny", "allow", False)
    assert granted["external_directory"] == {"*": "deny", f"{OWN}/*": "allow", f"{TREE}/*": "allow"}
    assert granted["edit"] == {"*": "allow", "*t-goal.j0123/*": "deny"}


@pytest.mark.parametrize(("name", "says"), [("aider", "no answer"), ("mini", "cannot be limited")])
def test_who_cannot_be_a_judge_refuses(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        launched(name, tmp_path)


@pytest.mark.parametrize(
    ("kind", "paths", "command", "granted"),
    [
        ("read", ["a.py"], "", True),
        ("search", ["src"], "", True),
        ("edit", ["a.py"], "", False),
        ("delete", ["a.py"], "", False),
        ("read", ["../other/a.py"], "", False),
        ("execute", [], "cat {tree}/a.py", True),
        ("execute", [], "cat /etc/passwd", False),
        ("execute", [], "git -C {tree} commit -m x", False),
        ("execute", [], "git add a.py", False),
        ("execute", [], "touch {tree}/a.py", False),
    ],
)
def test_over_acp_the_tree_is_read_and_not_changed(
    tmp_path: Path, kind: str, paths: list[str], command: str, granted: bool
) -> None:
    own, tree = tmp_path / "own", tmp_path / "tree"
    spec = Spec(argv=[], cwd=str(own), prompt="", roots=[str(own)], reads=[str(tree)])
    there = [str(tree / path) for path in paths]
    assert (refusal(spec, kind, there, command.format(tree=tree)) == "") == granted
    assert refusal(spec, "edit", [str(own / "answer.json")], "") == ""


def test_an_acp_judge_is_granted_no_command(tmp_path: Path) -> None:
    agent = programs(tmp_path, "agent")
    launch = ENGINES["acp"]({"PATH": agent}).launch(JUDGE, settings(argv=("agent",), allow=("make",)))
    spec = json.loads(launch.files["acp.json"])
    assert (spec["commands"], spec["reads"], spec["roots"], spec["anything"]) == ([], [TREE], [OWN], False)
