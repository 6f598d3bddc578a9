"""What the doctor finds, part by part, on machines made up of files and programs in a folder."""

from __future__ import annotations

import os
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest

from orchconverge.adapters import git_probes, probes
from orchconverge.adapters.engines import ENGINES
from orchconverge.adapters.engines.acp import PRESETS
from orchconverge.adapters.git import Repository
from orchconverge.adapters.probes_agents import KNOWN, VERSION_SECONDS, signed_in, version, versions
from orchconverge.core.places import PIDS_FLOOR, PTYS_FLOOR
from orchconverge.core.seen import Machine
from orchconverge.core.values import Settings
from orchconverge.core.views import doctor as view
from orchconverge.core.views.doctor import Ability, Finding, fault, ok, warning
from orchconverge.ports import Brief


def program(folder: Path, name: str, text: str = "exit 0") -> Path:
    """A program of this name that a shell runs."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def path_of(*folders: Path) -> dict[str, str]:
    return {"PATH": os.pathsep.join(map(str, folders))}


# --- room ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "floor", "of"),
    [
        ("disk", 100, "disk_free"),
        ("memory", 100, "memory_free"),
        ("processes", PIDS_FLOOR, "pids_free"),
        ("terminals", PTYS_FLOOR, "ptys_free"),
    ],
)
def test_under_a_floor_is_a_fault_and_near_it_a_warning(part: str, floor: int, of: str) -> None:
    def state(left: int | None) -> Finding:
        found = probes.room(Machine(**{of: left}), memory_floor=100, disk_floor=100)
        return {one.part: one for one in found}[part]

    assert [state(left).state for left in (floor - 1, floor, 2 * floor - 1, 2 * floor)] == [
        "fault",
        "warning",
        "warning",
        "ok",
    ]
    assert state(floor - 1).todo
    assert state(None).state == "ok"


# --- locale ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "state", "said"),
    [
        ({"LANG": "C.UTF-8"}, "ok", "UTF-8 by LANG"),
        ({"LANG": "C", "LC_ALL": "en_US.utf8"}, "ok", "UTF-8 by LC_ALL"),
        ({"LANG": "C.UTF-8", "LC_CTYPE": "POSIX"}, "warning", "LC_CTYPE is POSIX"),
        ({"LANG": "", "LC_ALL": ""}, "warning", "none is set"),
    ],
)
def test_the_first_variable_that_is_set_decides_on_the_locale(environ: dict[str, str], state: str, said: str) -> None:
    found = probes.locale(environ)
    assert found.state == state
    assert found.said.startswith(said)


# --- sandbox ---------------------------------------------------------------------------------------------------------


def test_a_sandbox_that_is_not_there_is_said(tmp_path: Path) -> None:
    found = probes.sandbox(path_of(tmp_path))
    assert (found.state, found.said) == ("warning", "bubblewrap is not installed: a mind can do what you can")


def test_a_sandbox_that_the_kernel_refuses_is_said_in_its_own_words(tmp_path: Path) -> None:
    program(tmp_path, "bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    found = probes.sandbox(path_of(tmp_path))
    assert found.state == "warning"
    assert "No permissions to create new namespace" in found.said


def test_a_sandbox_that_runs_something_works(tmp_path: Path) -> None:
    program(tmp_path, "bwrap", '[ "$1 $4 $6" = "--ro-bind --unshare-all true" ]')
    assert probes.sandbox(path_of(tmp_path)).state == "ok"


def test_a_sandbox_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    program(tmp_path, "bwrap", "exec sleep 60")
    before = time.monotonic()
    assert probes.sandbox(path_of(tmp_path, Path("/bin"), Path("/usr/bin"))).state == "warning"
    assert time.monotonic() - before < 20


# --- the state folder ------------------------------------------------------------------------------------------------


def mounted(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text("\n".join(lines))
    return path


def test_a_state_folder_that_is_not_there_yet_is_made_by_the_first_run(tmp_path: Path) -> None:
    found = probes.state(tmp_path / "new" / "state")
    assert found.state == "ok"
    assert found.said.endswith(", made by the first run")


def test_a_state_folder_that_others_can_look_into_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o755)
    found = probes.state(folder)
    assert (found.state, found.todo) == ("warning", f"chmod 700 {folder}")
    assert "its mode is 0755" in found.said
    folder.chmod(0o700)
    assert probes.state(folder).state == "ok"


def test_a_state_folder_that_is_a_file_or_a_link_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    assert probes.state(tmp_path / "file").state == "fault"
    assert probes.state(tmp_path / "file" / "state").state == "fault"
    assert probes.state(tmp_path / "link").state == "fault"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_state_folder_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert probes.state(tmp_path / "state").state == "fault"
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_state_folder_of_somebody_else_is_a_fault(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    os.chown(folder, 4711, 4711)
    found = probes.state(folder)
    assert (found.state, found.said) == ("fault", f"{folder} is owned by user 4711, not by you")


@pytest.mark.parametrize(("kind", "state"), [("ext4", "ok"), ("nfs4", "warning"), ("fuse.sshfs", "warning")])
def test_a_disk_of_another_machine_is_no_place_for_a_ledger(tmp_path: Path, kind: str, state: str) -> None:
    mounts = mounted(tmp_path, "1 0 8:1 / / rw - ext4 /dev/a rw", f"2 1 8:2 / {tmp_path} rw - {kind} host:/x rw")
    assert probes.state(tmp_path / "state", mounts=mounts).state == state


def test_the_innermost_and_last_mount_is_where_a_path_lies(tmp_path: Path) -> None:
    inner = tmp_path / "a b"
    inner.mkdir()
    named = str(inner).replace(" ", "\\040")
    mounts = mounted(
        tmp_path,
        "1 0 8:1 / / rw shared:1 - overlay overlay rw",
        f"2 1 8:2 / {named} rw - ext4 /dev/b rw",
        f"3 2 8:3 / {named} rw shared:7 master:2 - xfs /dev/c rw",
        f"4 1 8:4 / {tmp_path}/a rw - nfs host:/x rw",
        "half a line",
    )
    assert probes.file_system(inner, mounts=mounts) == "xfs"
    assert probes.file_system(tmp_path, mounts=mounts) == "overlay"
    assert probes.file_system(tmp_path, mounts=tmp_path / "none") == ""


# --- the forge -------------------------------------------------------------------------------------------------------


def test_a_repository_without_a_remote_pushes_nothing(tmp_path: Path) -> None:
    assert probes.forge("origin", None, path_of(tmp_path)).state == "warning"
    assert probes.forge("origin", "", path_of(tmp_path)).state == "ok"
    assert probes.forge("origin", "git.example.org", path_of(tmp_path)).state == "ok"


def test_a_pull_request_needs_gh_and_a_sign_in(tmp_path: Path) -> None:
    environ = {**path_of(tmp_path / "bin"), "HOME": str(tmp_path)}
    assert "gh is not installed" in probes.forge("origin", "github.com", environ).said
    program(tmp_path / "bin", "gh", "exit 9")
    found = probes.forge("origin", "github.com", environ)
    assert (found.state, found.todo) == ("warning", "gh auth login")
    assert "signed in by GH_TOKEN" in probes.forge("origin", "github.com", {**environ, "GH_TOKEN": "secret"}).said
    (tmp_path / ".config/gh").mkdir(parents=True)
    (tmp_path / ".config/gh/hosts.yml").write_text("secret")
    found = probes.forge("origin", "github.com", environ)
    assert found.state == "ok"
    assert "signed in by hosts.yml" in found.said
    assert "secret" not in found.said


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://github.com/a/b.git", "github.com"),
        ("https://ann:token@GitHub.com/a/b", "github.com"),
        ("ssh://git@git.example.org:2222/a/b", "git.example.org"),
        ("git@github.com:a/b.git", "github.com"),
        ("github.com:a/b", "github.com"),
        ("https://[::1]:8080/a", "[::1]"),
        ("/srv/a.git", ""),
        ("../b", ""),
        ("file:///srv/a.git", ""),
    ],
)
def test_the_host_of_a_remote_is_told_without_who_signs_in_there(tmp_path: Path, url: str, host: str) -> None:
    git = Repository(root=tmp_path, common_dir=tmp_path, trees=tmp_path)
    git.run(["init", "-q"])
    git.run(["remote", "add", "origin", url])
    assert git_probes.host(tmp_path, "origin") == host
    assert git_probes.host(tmp_path, "upstream") is None


# --- agents ----------------------------------------------------------------------------------------------------------


def test_every_engine_with_a_program_of_its_own_is_known() -> None:
    own = {name for name, build in ENGINES.items() if build({}).find() is None}
    assert set(KNOWN) == own | set(PRESETS)


PASSED = {name: ENGINES[name]({}).variables for name in KNOWN if name in ENGINES} | {
    f"acp:{name}": preset.variables for name, preset in PRESETS.items()
}


@pytest.mark.parametrize("name", PASSED)
def test_a_variable_that_signs_in_is_one_that_reaches_the_mind(name: str) -> None:
    known = KNOWN[name.removeprefix("acp:")]
    assert not [v for v in known.variables if not any(fnmatch(v, pattern) for pattern in PASSED[name])]


@pytest.mark.parametrize("name", sorted(set(KNOWN) & set(ENGINES)))
def test_a_cap_is_said_of_an_engine_that_is_given_it(name: str, tmp_path: Path) -> None:
    program(tmp_path / "bin", name)
    (tmp_path / "brief").write_text("do it")
    brief = Brief(
        text="do it",
        text_path=tmp_path / "brief",
        report_path=tmp_path / "out" / "report.json",
        folder=tmp_path,
        cwd=tmp_path,
        branch="m",
        attempt=1,
        approach="a",
        usd=47.11,
    )
    launch = ENGINES[name](path_of(tmp_path / "bin")).launch(
        brief, Settings(checkout=str(tmp_path), place="fresh", engines=(name,), permissions="skip")
    )
    told = any("47.11" in word for word in (*launch.argv, *launch.env.values(), *launch.files.values()))
    assert told == ("dollars" in KNOWN[name].caps)


def test_a_sign_in_is_told_by_names_alone(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert signed_in(KNOWN["claude"], environ) == ()
    (tmp_path / ".claude").mkdir()
    file = tmp_path / ".claude/.credentials.json"
    file.write_text("")
    assert signed_in(KNOWN["claude"], environ) == (), "an empty file signs nobody in"
    file.write_text("secret")
    both = signed_in(KNOWN["claude"], {**environ, "ANTHROPIC_API_KEY": "secret"})
    assert both == ("ANTHROPIC_API_KEY", ".credentials.json")
    elsewhere = {**environ, "CLAUDE_CONFIG_DIR": str(tmp_path / "other")}
    assert signed_in(KNOWN["claude"], elsewhere) == ()


def test_a_program_of_npm_has_its_version_in_its_package(tmp_path: Path) -> None:
    for place, told in (("@maker/agent", "2.1.0-rc.1"), ("agent", "1.4.2")):
        package = tmp_path / "lib/node_modules" / place
        real = program(package / "bin", "agent.js")
        (package / "package.json").write_text(f'{{"name": "{place}", "version": "{told}"}}')
        link = tmp_path / f"agent-{told}"
        link.symlink_to(real)
        assert version(link) == told


def test_a_program_of_a_python_environment_has_its_version_in_its_metadata(tmp_path: Path) -> None:
    real = program(tmp_path / "bin", "aider")
    (tmp_path / "lib/python3.11/site-packages/aider_chat-0.86.2.dist-info").mkdir(parents=True)
    (tmp_path / "lib/python3.11/site-packages/other-9.0.dist-info").mkdir()
    assert version(real, "aider_chat") == "0.86.2"


def test_a_folder_can_be_named_by_the_version(tmp_path: Path) -> None:
    assert version(program(tmp_path / "share/agent/versions", "2.1.197")) == "2.1.197"
    assert version(program(tmp_path / "Cellar/agent/0.50.0/bin", "agent")) == "0.50.0"


@pytest.mark.parametrize("package", ["", "[1]", '{"version": 7}', '{"version": "no number"}', "{" * 5000])
def test_a_package_that_says_nothing_of_use_is_no_version(tmp_path: Path, package: str) -> None:
    real = program(tmp_path / "node_modules/agent", "agent.js")
    (real.parent / "package.json").write_text(package)
    assert version(real) == ""


def test_where_the_files_are_silent_the_programs_are_asked_all_at_once_and_not_for_long(tmp_path: Path) -> None:
    programs = [
        program(tmp_path / "a", "claude", "echo '2.1.197 (Claude Code)'"),
        program(tmp_path / "b", "codex", "echo codex-cli 0.171.0; exit 3"),
        program(tmp_path / "c", "gemini", "exec sleep 60"),
        program(tmp_path / "d", "opencode", "exec sleep 60"),
        tmp_path / "gone",
    ]
    before = time.monotonic()
    told = versions(dict.fromkeys(map(str, programs), ""), {"PATH": "/usr/bin:/bin"})
    assert [*told.values()] == ["2.1.197", "0.171.0", "", "", ""]
    assert time.monotonic() - before < 2 * VERSION_SECONDS + 10


# --- as text ---------------------------------------------------------------------------------------------------------


def test_each_part_is_a_line_and_what_to_type_stands_below_it() -> None:
    findings = [ok("git", "2.39"), warning("sandbox", "none\x1b[31m", "install it"), fault("tmux", "gone", "get it")]
    assert view.text(findings) == (
        "ok       git      2.39\n"
        "warning  sandbox  none\n"
        "                    install it\n"
        "fault    tmux     gone\n"
        "                    get it\n"
        "1 fault, 1 warning."
    )
    assert view.document(findings)["ok"] is False
    assert view.document(findings[:2])["ok"] is True


def test_what_an_engine_can_do_is_said_below_where_it_is() -> None:
    made = Ability(
        engine="codex",
        path="/usr/bin/codex",
        version="",
        signed_in=(),
        caps=(),
        resumes=False,
        commits=False,
        hooks=True,
        cost=False,
    )
    assert view.engines([made]) == (
        "codex  version not told, /usr/bin/codex\n"
        "       context fresh each time; limits kept by itself: none; cannot commit, so orchconverge does; "
        "asks before each tool call; tells no cost"
    )
