"""The slash commands: what is made of each source, where it goes, and that nothing of a person is touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge import __version__
from orchconverge.adapters.command_files import NAMES, PROJECT, Placed, shipped
from orchconverge.app.commands import install, look, uninstall
from orchconverge.cli import COMMANDS
from orchconverge.core.slash import (
    AGENTS,
    CONVERSED,
    LONGEST_DESCRIPTION,
    REQUEST,
    File,
    Source,
    files,
    plugin,
    source,
    standing,
)
from orchconverge.errors import Refused

ROOT = Path(__file__).resolve().parents[2]
SOURCES = shipped()
EVERY = [(agent, scope) for agent in AGENTS for scope in ("project", "user")]


def made(agent: str, scope: Any = "project") -> dict[str, str]:
    """Path -> text of all that an agent reads."""
    return {file.path: file.data.decode() for file in files(SOURCES, agent, scope)}


def head(text: str) -> tuple[dict[str, str], str]:
    """The front matter, as YAML's double quotes are JSON's, and the rest."""
    told, closed, body = text.removeprefix("---\n").partition("\n---\n")
    assert closed
    assert text.startswith("---\n")
    lines = [line.split(": ", 1) for line in told.split("\n") if not line.startswith("#")]
    return {key: json.loads(value) if value.startswith('"') else value for key, value in lines}, body


# --- what is made ----------------------------------------------------------------------------------------------------


def test_each_source_has_the_request_once_and_a_description_that_a_skill_can_have() -> None:
    assert {each.name for each in SOURCES} == {path.stem for path in (ROOT / "commands").glob("*.md")} == set(NAMES)
    for each in SOURCES:
        assert each.body.count(REQUEST) == 1
        assert each.body.count("$ARGUMENTS") == 1
        assert 0 < len(each.description) <= LONGEST_DESCRIPTION
        assert f"/{each.name}" in each.description


def test_what_users_say_is_what_starts_the_skill() -> None:
    """The triggers of the seed."""
    [said] = [each.description for each in SOURCES if each.name == "orchconverge"]
    for words in (
        "wants to run /orchconverge",
        "needs unattended multi-hour convergence on a goal",
        "persistent tmux-based convergence agents that survive terminal closure",
        "convergence daemon config, state persistence, tmux orchestration architecture",
        "convergence status, stop or resume",
    ):
        assert words in said


def test_every_command_line_of_ours_in_them_exists() -> None:
    named = {
        word
        for each in SOURCES
        for word in re.findall(r"`orchconverge ([a-z]+)|^ +orchconverge ([a-z]+)", each.body, re.M)
        for word in word
        if word
    }
    assert {"pushl", "reviewdeep", "copilot", "declare", "open", "lock", "wait", "status"} <= named
    assert named <= {*COMMANDS, "logs"}


def test_no_goal_goes_into_a_shell_line() -> None:
    for each in SOURCES:
        starts = re.findall(r"^ +(orchconverge (?:declare )?--.*)$", each.body, re.M)
        assert all(line.split()[1:3] == ["--goal-file", "FILE"] or " --goal-file FILE" in line for line in starts)
        assert bool(starts) == ("**The goal never goes into a shell line**" in each.body)


def test_the_todo_list_follows_what_status_says() -> None:
    """The words of the table are keys of `status --json` and phases of it."""
    from orchconverge.core.projection import PHASES, Projection

    [text] = [each.body for each in SOURCES if each.name == "orchconverge"]
    assert {"basins", "shown", "needs_you"} <= set(Projection.__struct_fields__)
    assert set(re.findall(r"\b[A-Z]{5,}(?: LOCK)?\b", text)) - {
        "TOML",
        "ARGUMENTS",
        "BRANCH",
        "COMMAND",
        "ORCHCONVERGE_",
    } <= set(PHASES)


@pytest.mark.parametrize(("agent", "scope"), EVERY)
def test_each_agent_gets_all_six_in_a_form_that_it_reads(agent: str, scope: str) -> None:
    found = made(agent, scope)
    for each in SOURCES:
        assert [path for path in found if f"/{each.name}." in path or f"/{each.name}/" in path]
    for path, text in found.items():
        name = Path(path).parent.name if path.endswith("SKILL.md") else Path(path).name.partition(".")[0]
        [was] = [each for each in SOURCES if each.name == name]
        if path.endswith(".toml"):
            told = tomllib.loads(text)
            assert told.keys() == {"description", "prompt"}
            assert not re.search(r"[!@]\{|\{\{", told["prompt"])
            front, body = told, told["prompt"]
        else:
            front, body = head(text)
        assert front["description"] == was.description
        if path.endswith("SKILL.md"):
            assert front["name"] == name
            assert agent == "claude" or front.keys() == {"name", "description"}
        assert ("$ARGUMENTS" in body) == (agent == "claude")
        assert not re.search(r"!`|\$[1-9]", body)
        assert body.endswith(was.body.partition(REQUEST)[2])


def test_none_is_shown_to_a_model_twice() -> None:
    """Claude is shown its commands as it is shown skills; Gemini and opencode are shown skills alone."""
    skills = {agent: {path for path in made(agent) if path.startswith("skills/")} for agent in AGENTS}
    conversed = {f"skills/{name}/SKILL.md" for name in CONVERSED}
    assert skills["claude"] == skills["gemini"] == skills["opencode"] == conversed
    assert not {path for path in made("claude") if path.startswith("commands/") and Path(path).stem in CONVERSED}
    assert len(skills["codex"]) == len(skills["copilot"]) == len(NAMES)


def test_a_source_that_is_not_whole_is_refused() -> None:
    text = (ROOT / "commands" / "orch.md").read_text()
    for broken in (
        "no front matter",
        text.replace("$ARGUMENTS", ""),
        text + REQUEST,
        text.replace("description:", "x:"),
    ):
        with pytest.raises(Refused, match=r"commands/orch\.md is not whole"):
            source("orch", broken)


def test_what_agents_read_that_install_the_repository_is_made_of_the_sources() -> None:
    wanted = plugin(SOURCES)
    there = {
        str(path.relative_to(ROOT)): path.read_bytes()
        for path in [*(ROOT / "commands").glob("*.toml"), *(ROOT / ".codex-plugin").rglob("*.md")]
    }
    assert there == wanted, "python scripts/lib/plugin.py"


def test_the_manifests_have_our_name_and_version() -> None:
    for name in (".claude-plugin/plugin.json", ".codex-plugin/plugin.json", "gemini-extension.json"):
        told = json.loads((ROOT / name).read_text())
        assert (told["name"], told["version"]) == ("orchconverge", __version__)
    [ours] = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text())["plugins"]
    assert (ours["name"], ours["source"]) == ("orchconverge", "./")


# --- what is ours ----------------------------------------------------------------------------------------------------


def one(text: str = "Do it.\n") -> File:
    made_of = Source(name="orch", description="d", hint="", body=f"{REQUEST}\n{text}")
    return next(files((made_of,), "opencode", "project"))


@given(st.binary(max_size=200), st.integers(0, 400))
def test_what_was_changed_anywhere_is_not_ours_any_more(added: bytes, at: int) -> None:
    data = one().data
    changed = data[:at] + added + data[at:]
    assert standing(changed, data) == ("fine" if changed == data else standing(changed, one("Another.\n").data))
    assert standing(changed, data) in ("changed", "not ours") or changed == data


def test_an_older_form_is_outdated_and_a_file_of_somebody_else_s_is_not_ours() -> None:
    assert standing(None, one().data) == "missing"
    assert standing(one("As it was.\n").data, one().data) == "outdated"
    assert standing(b"---\ndescription: mine\n---\nhello\n", one().data) == "not ours"


# --- where it goes ---------------------------------------------------------------------------------------------------


def wanted(root: Path, agent: str = "claude", sources: tuple[Source, ...] = SOURCES) -> list[tuple[Placed, File]]:
    placed = Placed(root / PROJECT[agent])
    return [(placed, file) for file in files(sources, agent, "project")]


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("agent", AGENTS)
def test_it_is_placed_once_and_taken_away_whole(tmp_path: Path, agent: str) -> None:
    (tmp_path / PROJECT[agent]).mkdir()
    (tmp_path / PROJECT[agent] / "mine.md").write_text("mine")
    before = tree(tmp_path)
    first = install(wanted(tmp_path, agent))
    placed = tree(tmp_path)
    assert {each.did for each in first} == {"written"}
    assert len(placed) == len(before) + len(first)
    assert {each.did for each in install(wanted(tmp_path, agent))} == {""}
    assert {each.standing for each in look(wanted(tmp_path, agent))} == {"fine"}
    assert tree(tmp_path) == placed
    assert {each.did for each in uninstall(wanted(tmp_path, agent))} == {"removed"}
    assert tree(tmp_path) == before
    assert not [path for path in tmp_path.rglob("*") if path.name in NAMES]


def test_an_older_version_s_files_are_replaced(tmp_path: Path) -> None:
    old = tuple(Source(name=e.name, description=e.description, hint=e.hint, body=e.body + "Old.\n") for e in SOURCES)
    install(wanted(tmp_path, sources=old))
    assert {each.standing for each in look(wanted(tmp_path))} == {"outdated"}
    assert {each.did for each in install(wanted(tmp_path))} == {"written"}
    assert {each.standing for each in look(wanted(tmp_path))} == {"fine"}


@pytest.mark.parametrize("theirs", [b"mine\n", b"", None])
def test_what_a_person_made_or_changed_stops_all_of_it_and_is_named(tmp_path: Path, theirs: bytes | None) -> None:
    path = tmp_path / ".claude" / "commands" / "orch.md"
    if theirs is None:
        install(wanted(tmp_path))
        path.write_bytes(path.read_bytes() + b"Another line.\n")
        (tmp_path / ".claude/commands/pushl.md").unlink()
    else:
        path.parent.mkdir(parents=True)
        path.write_bytes(theirs)
    before = tree(tmp_path)
    for act in (install, uninstall):
        with pytest.raises(Refused, match=f"{'changed' if theirs is None else 'not ours'}: {re.escape(str(path))}"):
            act(wanted(tmp_path))
        assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "link", [".claude", ".claude/commands", ".claude/commands/orch.md", ".claude/skills/orchconverge"]
)
@pytest.mark.parametrize("leads", ["there", "nowhere"])
def test_nothing_is_read_or_written_through_a_link(tmp_path: Path, link: str, leads: str) -> None:
    repo, other = tmp_path / "repo", tmp_path / "other"
    (repo / link).parent.mkdir(parents=True)
    if leads == "there":
        other.write_bytes(b"theirs") if link.endswith(".md") else other.mkdir()
    (repo / link).symlink_to(other)
    for act in (install, uninstall, look):
        with pytest.raises(Refused, match="is a link or something else"):
            act(wanted(repo))
    assert tree(tmp_path) == ({"other": b"theirs", "repo/" + link: b"theirs"} if other.is_file() else {})


def test_a_pipe_in_the_way_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".claude/commands").mkdir(parents=True)
    os.mkfifo(tmp_path / ".claude/commands/orch.md")
    with pytest.raises(Refused, match="is a link or something else"):
        look(wanted(tmp_path))


def test_a_skill_s_folder_with_something_else_in_it_stays(tmp_path: Path) -> None:
    install(wanted(tmp_path, "codex"))
    (tmp_path / ".codex/skills/orch/notes.md").write_text("mine")
    uninstall(wanted(tmp_path, "codex"))
    assert tree(tmp_path) == {".codex/skills/orch/notes.md": b"mine"}


# --- the command line ------------------------------------------------------------------------------------------------


def call(cwd: Path, *words: str, code: int = 0, **env: str) -> str:
    """Standard output of `orchconverge commands`, of its errors where it is refused."""
    home = cwd.parent / "home"
    home.mkdir(exist_ok=True)
    plain = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"} | env
    argv = [sys.executable, "-P", "-m", "orchconverge", "commands", *words]
    ran = subprocess.run(argv, cwd=cwd, env=plain, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == code, ran
    return ran.stderr if code == 2 else ran.stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path / "repo")], check=True)
    return tmp_path / "repo"


def programs(folder: Path, *names: str) -> str:
    """A PATH with git and these, and no other agent."""
    folder.mkdir()
    git = subprocess.run(["sh", "-c", "command -v git env"], capture_output=True, text=True, check=True).stdout.split()
    for path in git:
        (folder / Path(path).name).symlink_to(path)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_in_a_repository_it_is_for_the_agents_on_path_and_says_what_git_makes_of_it(tmp_path: Path, repo: Path) -> None:
    path = programs(tmp_path / "bin", "gemini", "codex")
    below = repo / "deep"
    below.mkdir()
    said = call(below, "install", PATH=path)
    assert [line.split()[:3] for line in said.splitlines()[:2]] == [["codex", "6", "files"], ["gemini", "7", "files"]]
    assert said.splitlines()[2].startswith("git status shows them")
    assert {path.split("/")[0] for path in tree(repo) if not path.startswith(".git/")} == {".codex", ".gemini"}
    (repo / ".git/info/exclude").write_text(".codex\n.gemini/skills\n")
    assert "git status shows 6 of them" in call(repo, "check", PATH=path)
    (repo / ".git/info/exclude").write_text(".codex\n.gemini\n")
    assert call(repo, "check", PATH=path).endswith("git ignores them.\n")
    told = json.loads(call(repo, "check", "--json", PATH=path))
    assert told["scope"] == "project"
    assert {(each["agent"], each["was"], each["did"]) for each in told["files"]} == {
        ("codex", "fine", ""),
        ("gemini", "fine", ""),
    }
    assert "6 files removed" in call(repo, "uninstall", PATH=path)
    assert call(repo, "uninstall", PATH=path) == "Nothing of ours is there.\n"
    assert "missing" in call(repo, "check", PATH=path, code=1)


def test_committed_they_are_not_spoken_of(repo: Path) -> None:
    call(repo, "install", "--agent", "opencode")
    who = ["-c", "user.name=P", "-c", "user.email=p@example.org"]
    for words in (["add", "-A"], [*who, "commit", "-q", "-m", "commands"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    assert call(repo, "check", "--agent", "opencode").splitlines() == [f"opencode  7 files fine, in {repo}/.opencode"]


def test_outside_of_a_repository_it_is_for_the_user(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    assert f"in {tmp_path}/home/.codex" in call(nowhere, "install", "--agent", "codex")
    assert "is not in a git repository" in call(nowhere, "install", "--project", "--agent", "codex", code=2)
    assert tree(nowhere) == {}


@pytest.mark.parametrize(
    ("agent", "variable", "below"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", ""),
        ("codex", "CODEX_HOME", ""),
        ("gemini", "GEMINI_CLI_HOME", "/.gemini"),
        ("opencode", "XDG_CONFIG_HOME", "/opencode"),
        ("copilot", "COPILOT_HOME", ""),
    ],
)
def test_the_agent_s_own_variable_moves_its_folder(repo: Path, agent: str, variable: str, below: str) -> None:
    moved = repo.parent / "moved" / "deep"
    said = call(repo, "install", "--user", "--agent", agent, **{variable: str(moved)})
    assert f"written, in {moved}{below}\n" in said
    assert "git" not in said


def test_with_no_agent_and_with_a_file_that_is_not_ours_it_is_refused(tmp_path: Path, repo: Path) -> None:
    assert "no agent was found on PATH" in call(repo, "install", PATH=programs(tmp_path / "bin"), code=2)
    (repo / ".codex/skills/orch").mkdir(parents=True)
    (repo / ".codex/skills/orch/SKILL.md").write_text("mine")
    said = call(repo, "install", "--agent", "claude", "--agent", "codex", code=2)
    assert f"not ours: {repo}/.codex/skills/orch/SKILL.md" in said
    assert not (repo / ".claude").exists()
    assert "1 file not ours" in call(repo, "check", "--agent", "codex", code=1)


def test_a_file_that_was_changed_is_named_and_neither_overwritten_nor_removed(repo: Path) -> None:
    call(repo, "install", "--agent", "claude")
    mine = repo / ".claude/commands/pushl.md"
    mine.write_text(mine.read_text() + "And sign it.\n")
    before = tree(repo)
    assert call(repo, "check", "--agent", "claude", code=1).splitlines()[:3] == [
        f"claude    5 files fine, in {repo}/.claude",
        f"claude    1 file changed, in {repo}/.claude",
        "  commands/pushl.md",
    ]
    for act in ("install", "uninstall"):
        assert f"changed: {mine}" in call(repo, act, "--agent", "claude", code=2)
        assert tree(repo) == before


def test_without_a_word_it_shows_its_help(repo: Path) -> None:
    assert (
        "install"
        in subprocess.run(
            [sys.executable, "-P", "-m", "orchconverge", "commands"], cwd=repo, capture_output=True, text=True
        ).stdout
    )
