"""Where things lie, and what the settings are."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.config import PREFIX, Config, Convergence, Loaded, Tmux, load, steps
from orchconverge.core.values import Thresholds
from orchconverge.errors import Refused
from orchconverge.whereabouts import base_folder, places, repo_name, repository, required, settings_files, toml

Git = Callable[..., str]


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith((PREFIX, "GIT_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture
def git(tmp_path: Path) -> Git:
    def run(*argv: str | Path, at: Path = tmp_path) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        done = subprocess.run(["git", *identity, *argv], cwd=at, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    return run


@pytest.fixture
def root(tmp_path: Path, git: Git) -> Path:
    git("init", "-q", "repo")
    git("commit", "-q", "--allow-empty", "-m", "first", at=tmp_path / "repo")
    return tmp_path / "repo"


def settled(root: Path, **flags: Any) -> Loaded:
    return load(required(root), flags=flags)


def refused(root: Path, **flags: Any) -> str:
    with pytest.raises(Refused) as error:
        settled(root, **flags)
    return f"{error.value.message} | {error.value.hint}"


# --- the repository ---------------------------------------------------------------------------------------------------


def test_the_repository_is_the_one_that_git_finds(root: Path, git: Git, tmp_path: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    git("worktree", "add", "-q", "../linked", at=root)
    git("init", "-q", "--bare", "bare.git")
    git("init", "-q", "--separate-git-dir", tmp_path / "apart", "sep")
    git("-c", "protocol.file.allow=always", "submodule", "-q", "add", root, "sub", at=root)
    (root / "a" / ".git").mkdir()  # git passes an empty one by
    for start in (
        root,
        root / "a/b",
        root / "sub",
        tmp_path / "linked",
        tmp_path / "bare.git",
        tmp_path / "sep",
        root / ".git",
    ):
        found = required(start)
        common = Path(git("rev-parse", "--path-format=absolute", "--git-common-dir", at=start))
        assert found.common_dir == common.resolve()
        assert found.git_dir == Path(git("rev-parse", "--absolute-git-dir", at=start)).resolve()
        inside = git("rev-parse", "--is-inside-work-tree", at=start) == "true"
        assert found.root == (Path(git("rev-parse", "--show-toplevel", at=start)) if inside else None)


def test_no_repository_is_none_or_refused(tmp_path: Path) -> None:
    assert repository(tmp_path) is None
    assert repository(tmp_path / "not" / "there") is None
    with pytest.raises(Refused, match="not in a git repository"):
        required(tmp_path)


@pytest.mark.parametrize("text", ["", "nonsense", "gitdir: ", "gitdir: /not/there", "gitdir: a\0b"])
def test_a_git_file_that_leads_nowhere_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    with pytest.raises(Refused):
        repository(tmp_path)


def test_all_trees_of_a_repository_share_their_places_and_no_two_repositories_do(
    root: Path, git: Git, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", "../linked", at=root)
    (tmp_path / "other").mkdir()
    git("init", "-q", "other/repo")
    here, linked, other = (required(path) for path in (root, tmp_path / "linked", tmp_path / "other" / "repo"))
    assert places(here) == places(linked)
    assert places(here).state == root / ".git" / "orchconverge"
    assert repo_name(here).startswith("repo-")
    assert len(repo_name(here)) == len("repo-") + 10
    assert repo_name(here) != repo_name(other)


def test_places_follow_xdg_and_ignore_what_is_relative(root: Path) -> None:
    repo = required(root)
    name = repo_name(repo)
    env = {"HOME": "/h", "XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "relative"}
    found = places(repo, environ=env)
    assert found.trees == Path("/d/orchconverge", name, "trees")
    assert found.minds == Path("/h/.local/state/orchconverge", name)


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_the_user_database_is_asked(home: str | None) -> None:
    env = {} if home is None else {"HOME": home}
    assert base_folder("XDG_DATA_HOME", "x", env) == Path(pwd.getpwuid(os.getuid()).pw_dir) / "x"


def test_a_user_without_any_home_is_refused_and_not_a_crash(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert settings_files(root, environ={}) == ()
    with pytest.raises(Refused, match="no home directory"):
        places(required(root), environ={})


def test_the_state_directory_can_be_moved(root: Path, git: Git, tmp_path: Path) -> None:
    repo = required(root)
    env = {"HOME": "/h"}
    assert places(repo, state_dir="/a", environ={**env, "ORCHCONVERGE_STATE_DIR": "/b"}).state == Path("/a")
    assert places(repo, environ={**env, "ORCHCONVERGE_STATE_DIR": "~/b"}).state == Path("/h/b")
    (root / "orchconverge.toml").write_text('state_dir = "state/live"')
    git("worktree", "add", "-q", "../linked", at=root)
    linked = required(tmp_path / "linked")
    (tmp_path / "linked" / "orchconverge.toml").write_text('state_dir = "state/live"')
    assert places(repo, environ=env).state == places(linked, environ=env).state == root / "state" / "live"


@pytest.mark.parametrize("value", ["'/etc'", "'../x'", "'.'", "'a/../..'", "3", "''", "'a\\u0000'", "'way/out'"])
def test_a_repository_cannot_choose_a_state_directory_outside_of_itself(root: Path, value: str) -> None:
    (root / "way").symlink_to("/tmp")
    (root / "orchconverge.toml").write_text(f"state_dir = {value.replace(chr(39), chr(34))}")
    with pytest.raises(Refused, match="state_dir"):
        places(required(root))


def test_the_users_own_state_directory_is_absolute(root: Path, tmp_path: Path) -> None:
    own = tmp_path / "home" / ".config" / "orchconverge"
    own.mkdir(parents=True)
    (own / "config.toml").write_text(f'state_dir = "{tmp_path}/s"')
    assert places(required(root)).state == tmp_path / "s"
    (own / "config.toml").write_text('state_dir = "s"')
    with pytest.raises(Refused, match="not absolute"):
        places(required(root))


def test_where_things_lie_is_known_without_heavy_modules(root: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from orchconverge.whereabouts import places, required\n"
        "places(required(Path.cwd()))\n"
        "print(sorted({'pydantic', 'pydantic_settings', 'platformdirs', 'subprocess', 'tomllib', 'git'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


# --- the settings -----------------------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_design(root: Path) -> None:
    config = settled(root).config
    assert (config.max_attempts, config.max_hours, config.interval, config.minds) == (10, 3.0, 5.0, 1)
    assert config.final == ("pushl", "reviewdeep", "copilot", "report")
    assert config.tmux.socket == "orchconverge"
    assert settled(root).origins == {}


def test_every_setting_says_what_it_is() -> None:
    for table in (Config, Tmux, Convergence):
        assert all(field.description for field in table.model_fields.values())


def test_each_layer_is_stronger_than_the_next(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "home" / ".config" / "orchconverge"
    own.mkdir(parents=True)
    (own / "config.toml").write_text(
        'max_attempts = 1\nmax_hours = 1\ninterval = 1\nminds = 1\n[tmux]\nsocket = "mine"'
    )
    (root / "orchconverge.toml").write_text("max_attempts = 2\nmax_hours = 2\ninterval = 2")
    monkeypatch.setenv("ORCHCONVERGE_MAX_ATTEMPTS", "3")
    monkeypatch.setenv("ORCHCONVERGE_MAX_HOURS", "3")
    loaded = settled(root, max_attempts=4, minds=None)
    config = loaded.config
    assert (config.max_attempts, config.max_hours, config.interval, config.minds) == (4, 3.0, 2.0, 1)
    assert config.tmux.socket == "mine"
    assert loaded.origins == {
        "max_attempts": "--max-attempts",
        "max_hours": "ORCHCONVERGE_MAX_HOURS",
        "interval": "orchconverge.toml",
        "minds": str(own / "config.toml"),
        "tmux": str(own / "config.toml"),
    }


def test_settings_can_stand_in_pyproject_but_not_in_both(root: Path) -> None:
    (root / "pyproject.toml").write_text("[tool.orchconverge]\nminds = 3")
    assert settled(root).config.minds == 3
    assert settled(root).origins == {"minds": "[tool.orchconverge] of pyproject.toml"}
    (root / "orchconverge.toml").write_text("")
    assert "keep one of the two" in refused(root)


@pytest.mark.parametrize("text", ["[broken", "[project]\nname = 'x'", "tool = 3", "[tool.other]\nx = 1"])
def test_a_pyproject_that_is_not_about_us_is_left_alone(root: Path, text: str) -> None:
    (root / "pyproject.toml").write_text(text)
    assert settled(root).origins == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("none", ()),
        ("push", ("pushl", "report")),
        ("push,review", ("pushl", "reviewdeep", "report")),
        ("pushl, reviewdeep ,copilot", ("pushl", "reviewdeep", "copilot", "report")),
        ("copilot,push,push", ("pushl", "copilot", "report")),
        ("report", ("report",)),
        (["review"], ("reviewdeep", "report")),
    ],
)
def test_the_final_chain_in_words(root: Path, value: Any, expected: tuple[str, ...]) -> None:
    assert settled(root, final=value).config.final == steps(value) == expected


def test_an_unknown_step_is_refused_by_its_flag() -> None:
    with pytest.raises(Refused, match="--final: 'fly' is no step"):
        steps("push,fly")


def test_lists_in_the_environment_are_separated_by_commas_or_json(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHCONVERGE_ALLOW", "make test, npm test")
    monkeypatch.setenv("ORCHCONVERGE_APPROACHES", '["small, careful", "bold"]')
    monkeypatch.setenv("ORCHCONVERGE_FINAL", "push")
    monkeypatch.setenv("ORCHCONVERGE_TMUX_SOCKET", "two")
    monkeypatch.setenv("ORCHCONVERGE_MINDS", "")
    config = settled(root).config
    assert config.allow == ("make test", "npm test")
    assert config.approaches == ("small, careful", "bold")
    assert config.final == ("pushl", "report")
    assert config.tmux.socket == "two"
    assert config.minds == 1


def test_what_a_mind_is_given_is_no_setting(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REPORT", "BRIEF", "STEP_RESULT", "ATTEMPT", "PLAIN"):
        monkeypatch.setenv(PREFIX + name, "/somewhere")
    assert settled(root).config.report == "commit"


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("max_atempts = 3", "orchconverge.toml has no setting called 'max_atempts'", "did you mean max_attempts?"),
        ("max-hours = 3", "no setting called 'max-hours'", "did you mean max_hours?"),
        ("zzz = 3", "no setting called 'zzz'", "what there is: allow, approaches"),
        ("[tmux]\nsoket = 'x'", "[tmux] of orchconverge.toml has no setting called 'soket'", "did you mean socket?"),
        ("[tmux]\nsocket = 'a/b'", "tmux.socket in orchconverge.toml", "the server's socket"),
        ("[convergence]\nreread = 1", "[convergence] of orchconverge.toml has no setting", "did you mean rereads?"),
        ("[convergence]\ntargets = 0", "convergence.targets in orchconverge.toml: should be greater", "looked at"),
        ("[convergence]\ntargets = 65", "convergence.targets in orchconverge.toml: should be less", ""),
        ("[convergence]\nrefusals = true", "convergence.refusals in orchconverge.toml: a number", ""),
        ("convergence = 3", "convergence in orchconverge.toml: should be", "work frontier"),
        ("max_attempts = -1", "max_attempts in orchconverge.toml: should be greater", "0: no limit"),
        ("max_attempts = true", "not true or false", ""),
        ("max_attempts = 1.5", "integer", ""),
        ("max_hours = inf", "max_hours in orchconverge.toml: should be", ""),
        ("max_hours = nan", "max_hours in orchconverge.toml: should be", ""),
        ("max_hours = 'long'", "number", ""),
        ("minds = 0", "greater than or equal to 1", ""),
        ("attempt_minutes = 0", "greater than 0", "minutes"),
        ("final = 'fly'", "'fly' is no step", ""),
        ("final = ['none', 'push']", "'none' is no step", ""),
        ("final = 3", "final in orchconverge.toml", ""),
        ("report = 'print'", "'commit', 'file' or 'state'", ""),
        ("remote = '--upload-pack=x'", "remote in orchconverge.toml", ""),
        ("env = ['A B']", "env.0 in orchconverge.toml", ""),
        ("allow = ['']", "allow.0 in orchconverge.toml: it is blank", ""),
        ('setup = "a\\u0000"', "NUL", ""),
        ("permissions = 'skip'", "a repository may not choose", "--permissions"),
        ("x =", "orchconverge.toml is not TOML", ""),
    ],
)
def test_a_bad_file_is_refused_by_name_with_what_to_write(root: Path, text: str, says: str, hint: str) -> None:
    (root / "orchconverge.toml").write_text(text)
    message, _, advice = refused(root).partition(" | ")
    assert says in message
    assert hint in advice


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("MAX_ATTEMPTS", "many", "ORCHCONVERGE_MAX_ATTEMPTS: should be a valid integer"),
        ("MAX_ATEMPTS", "3", "did you mean ORCHCONVERGE_MAX_ATTEMPTS?"),
        ("ALLOW", "[x", "ORCHCONVERGE_ALLOW: it begins like a JSON list"),
        ("TMUX_SOCKET", "a b", "ORCHCONVERGE_TMUX_SOCKET"),
        ("TMUX", "x", "set ORCHCONVERGE_TMUX_SOCKET"),
        ("CONVERGENCE", "x", "set ORCHCONVERGE_CONVERGENCE_TARGETS"),
        ("CONVERGENCE_TARGETS", "many", "ORCHCONVERGE_CONVERGENCE_TARGETS: should be a valid integer"),
        ("CONVERGENCE_TARGTS", "3", "did you mean ORCHCONVERGE_CONVERGENCE_TARGETS?"),
        ("CONVERGENCE_SOMETHING", "3", "ORCHCONVERGE_CONVERGENCE has no setting called 'something'"),
    ],
)
def test_a_bad_variable_is_refused_by_name(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(PREFIX + name, value)
    assert says in refused(root)


def test_the_thresholds_are_those_of_work_convergence_in_every_key_and_default(root: Path) -> None:
    defaults = {key: getattr(Thresholds(), key) for key in Thresholds.__struct_fields__}
    assert settled(root).config.convergence.model_dump() == defaults


def test_a_table_is_put_together_from_its_layers_and_a_fault_is_named_in_its_own(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "orchconverge.toml").write_text("[convergence]\ntargets = 20\nrereads = 5\n")
    monkeypatch.setenv("ORCHCONVERGE_CONVERGENCE_TARGETS", "9")
    found = settled(root).config.convergence
    assert (found.targets, found.rereads, found.refusals) == (9, 5, 3)
    (root / "orchconverge.toml").write_text("[convergence]\nrereads = -1\n")
    assert refused(root).startswith("convergence.rereads in orchconverge.toml: should be greater")


def test_a_bad_flag_is_refused_by_name(root: Path) -> None:
    assert refused(root, minds=0).startswith("--minds: should be greater")
    assert "did you mean lock?" in refused(root, lok="auto")


def test_what_a_repository_wants_to_run_or_open_needs_consent(root: Path) -> None:
    (root / "orchconverge.toml").write_text("setup = 'make deps'\nallow = ['make x']\nminds = 2")
    asked = settled(root).asked
    assert [(each.where, each.key, each.argv) for each in asked] == [
        ("orchconverge.toml", "setup", ("make deps",)),
        ("orchconverge.toml", "allow", ("make x",)),
    ]
    assert settled(root).asked == asked
    (root / "orchconverge.toml").write_text("setup = 'make deps2'")
    assert settled(root).asked[0].digest != asked[0].digest
    assert settled(root, setup="mine").asked == ()


def test_what_a_person_chose_needs_no_consent(root: Path, tmp_path: Path) -> None:
    own = tmp_path / "home" / ".config" / "orchconverge"
    own.mkdir(parents=True)
    (own / "config.toml").write_text("setup = 'make deps'\npermissions = 'skip'")
    assert settled(root).asked == ()
    assert settled(root).config.permissions == "skip"


def test_a_file_that_is_no_file_or_too_large_is_refused(root: Path) -> None:
    os.mkfifo(root / "orchconverge.toml")
    assert "not a regular file" in refused(root)
    (root / "orchconverge.toml").unlink()
    (root / "orchconverge.toml").write_bytes(b"#" * (2 << 20))
    assert "larger than" in refused(root)
    (root / "orchconverge.toml").unlink()
    (root / "orchconverge.toml").mkdir()
    assert "not a regular file" in refused(root)


@given(st.binary(max_size=120) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_table_or_refused(data: bytes) -> None:
    try:
        assert isinstance(toml(data, "x.toml"), dict)
    except Refused as error:
        assert error.message.startswith("x.toml")
