"""What `Panes` promises, on a real and private tmux server; ids such as B13 are cases of docs/cases."""

from __future__ import annotations

import ast
import contextlib
import itertools
import os
import pty
import re
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import orchconverge
from orchconverge.adapters.tmux import Tmux, session_name
from orchconverge.errors import Failed, Refused
from orchconverge.ports import Panes, SessionExists

pytestmark = [pytest.mark.tmux, pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")]

SLEEP = ("sleep", "600")
Make = Callable[..., Tmux]


def peer(path: Path) -> int | None:
    """The pid of whoever listens at ``path``: asked of the kernel, so that a stopped server answers too."""
    with socket.socket(socket.AF_UNIX) as end:
        try:
            end.connect(str(path))
        except OSError:
            return None
        pid: int = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        return pid


def gone(pid: int, *, within_seconds: float = 10) -> bool:
    """Whether the process ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], within_seconds)[0])
    finally:
        os.close(fd)


def end(path: Path) -> None:
    """End the server that listens at ``path``, stopped or not."""
    pid = peer(path)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        assert gone(pid)


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="oc", dir="/tmp") as folder:  # not tmp_path: a socket's path is short
        yield Path(folder)


@pytest.fixture
def make(home: Path) -> Iterator[Make]:
    """Builds the real adapter on sockets below ``home`` and ends its servers."""
    made: list[Tmux] = []

    def build(setting: str = "orchconverge", *, deadline_seconds: float = 10, **environ: str) -> Tmux:
        around = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TMUX_TMPDIR": str(home)}
        tmux = Tmux(setting, environ={**around, **environ}, deadline_seconds=deadline_seconds)
        made.append(tmux)
        return tmux

    yield build
    for tmux in made:
        end(tmux.socket_path)


@pytest.fixture
def tmux(make: Make) -> Tmux:
    return make()


@pytest.fixture(params=["tmux"])
def panes(request: pytest.FixtureRequest) -> Panes:
    found: Panes = request.getfixturevalue(request.param)
    return found


def told(fifo: Path, act: Callable[[], object]) -> str:
    """What is written to ``fifo`` after ``act``, to its end."""
    os.mkfifo(fifo)
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        act()
        said = b""
        while select.select([fd], [], [], 10)[0]:
            chunk = os.read(fd, 65536)
            if not chunk and said:
                return said.decode()
            said += chunk
        raise AssertionError(f"nobody wrote to {fifo}")
    finally:
        os.close(fd)


@contextlib.contextmanager
def attached(argv: list[str], *, seen: bytes, **environ: str) -> Iterator[None]:
    """``argv`` on a terminal of its own, of 80 columns, once ``seen`` was shown there."""
    ours, theirs = pty.openpty()
    env = {"PATH": os.environ["PATH"], "TERM": "xterm", "LC_ALL": "C.UTF-8", **environ}
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True) as process:
        os.close(theirs)
        try:
            shown = b""
            while seen not in shown:
                assert select.select([ours], [], [], 10)[0], shown
                try:
                    shown += os.read(ours, 65536)
                except OSError as error:  # Linux: nobody has the other end any more
                    raise AssertionError(shown) from error
            yield
        finally:
            process.kill()
            os.close(ours)


# --- the contract ----------------------------------------------------------------------------------------------------


def test_a_session_is_there_from_open_to_close(panes: Panes) -> None:
    assert panes.alive("mind-a-1") is False
    pane = panes.open("mind-a-1", SLEEP)
    assert pane.name == "mind-a-1"
    assert re.fullmatch(r"\$\d+", pane.session)
    assert re.fullmatch(r"%\d+", pane.pane)
    assert panes.alive("mind-a-1") is True
    panes.close("mind-a-1")
    assert panes.alive("mind-a-1") is False


def test_a_name_is_never_used_twice(panes: Panes) -> None:
    panes.open("mind-a-1", SLEEP)
    with pytest.raises(SessionExists):
        panes.open("mind-a-1", SLEEP)
    assert panes.alive("mind-a-1") is True


def test_closing_what_is_not_there_is_no_error(panes: Panes) -> None:
    panes.close("mind-a-1")
    panes.open("mind-a-2", SLEEP)
    panes.close("mind-a-1")
    assert panes.alive("mind-a-2") is True


@pytest.mark.parametrize("asked", ["m-1", "m", "m-", "m-*", "m-10:", "=m-10", "$0", "%0", "", ":", "{last}"])
def test_only_the_exact_name_is_meant(panes: Panes, asked: str) -> None:
    """B3, B4, B6: ``m-1`` is not ``m-10``."""
    panes.open("m-10", SLEEP)
    assert panes.alive(asked) is False
    panes.close(asked)
    assert panes.alive("m-10") is True


@pytest.mark.parametrize("words", ["v1.2", "a:b", "a.b:c", "  ", "#{pid}", "%g", "naïve 日本", "x;", "-f", "=e", "$y"])
def test_a_name_of_any_words_is_kept_by_tmux_as_it_is(panes: Panes, words: str) -> None:
    """B1."""
    name = session_name("mind", words, 1)
    assert re.fullmatch(r"mind[A-Za-z0-9_-]*-1", name)
    panes.open(name, SLEEP)
    assert panes.alive(name) is True
    panes.close(name)
    assert panes.alive(name) is False


@pytest.mark.parametrize("name", ["", "a.b", "a:b", "#(true)", "a b", "é", "x;", "a\n"])
def test_a_name_that_tmux_would_change_is_turned_down(panes: Panes, name: str) -> None:
    with pytest.raises(Failed):
        panes.open(name, SLEEP)
    assert panes.alive(name) is False


def test_opening_and_closing_in_quick_succession_never_fails(panes: Panes) -> None:
    """The server leaves with its last session: each of these may meet one on its way out."""
    for _ in range(30):
        panes.open("mind-a-1", SLEEP)
        panes.close("mind-a-1")
        assert panes.alive("mind-a-1") is False


def test_what_ends_at_once_was_started_all_the_same(panes: Panes) -> None:
    for n in range(30):
        panes.open(f"mind-a-{n}", ("true", "x"))


def test_many_at_once_never_fail(panes: Panes) -> None:
    def live(n: int) -> None:
        for k in range(6):
            panes.open(f"mind-{n}-{k}", SLEEP)
            panes.close(f"mind-{n}-{k}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(live, range(8)))


# --- of the real one alone -------------------------------------------------------------------------------------------


def test_long_parts_of_a_name_are_clipped_and_the_last_one_stays() -> None:
    name = session_name("convergence", "x" * 300, 1764430000)
    assert len(name) < 80
    assert name.endswith("-1764430000")


@pytest.mark.parametrize(
    "argv",
    [
        ("printf", "%s\n", "a b", "$HOME", "`id`", "$(id)", "'", '"', "\\", "#(touch canary)", "#{pid}"),
        ("printf", "%s\n", ";", "a;", "a\\;", "\\;", ";;", "kill-server", "a\nb", "", "é", "-t", "--"),
    ],
)
def test_the_process_gets_its_words_unchanged(tmux: Tmux, home: Path, argv: tuple[str, ...]) -> None:
    """B9, P32: no shell and no format on the way."""
    script = home / "say"
    script.write_text(f'#!/bin/sh\nexec "$@" >{home}/fifo\n')
    script.chmod(0o755)
    said = told(home / "fifo", lambda: tmux.open("mind-a-1", (str(script), *argv)))
    assert said == "".join(f"{word}\n" for word in argv[2:])
    assert not (home / "canary").exists()


def test_one_word_is_a_program_and_not_a_shell_line(tmux: Tmux, home: Path) -> None:
    script = home / "a program; with $(odd) name"
    script.write_text(f"#!/bin/sh\necho ran >{home}/fifo\n")
    script.chmod(0o755)
    assert told(home / "fifo", lambda: tmux.open("mind-a-1", (str(script),))) == "ran\n"


def test_the_pane_s_process_is_ours_in_a_fixed_size_and_in_no_directory_of_the_caller(tmux: Tmux, home: Path) -> None:
    said = told(home / "fifo", lambda: tmux.open("m", ("sh", "-c", f"echo $$ $PWD >{home}/fifo; exec sleep 600")))
    ours = f"{said.split()[0]} 200x50 /"
    shape = "#{pane_pid} #{window_width}x#{window_height} #{pane_current_path}"
    assert tmux._server.cmd("list-panes", "-a", "-F", shape).stdout == [ours]


@pytest.mark.parametrize("payload", ["#(touch {})", "$(touch {})", "`touch {}`", "';touch {};'", "#{{E:#(touch {})}}"])
def test_no_text_is_ever_run(tmux: Tmux, home: Path, payload: str) -> None:
    """B9, B10, T1."""
    canary = home / "canary"
    hostile = payload.format(canary)
    with pytest.raises(Failed):
        tmux.open(hostile, SLEEP)
    tmux.open(session_name("mind", hostile), ("sh", "-c", "exec sleep 600", hostile))
    assert tmux.alive(hostile) is False
    tmux.close(hostile)
    with attached(["sh", "-c", tmux.attach_command(session_name("mind", hostile))], seen=b"mind"):
        tmux.close(session_name("mind", hostile))
    assert not canary.exists()


def test_every_target_is_exact_and_every_call_names_our_server(tmux: Tmux, home: Path, make: Make) -> None:
    """B10, B25: seen from below, by a program in tmux's place that passes everything on."""
    spy = home / "bin" / "tmux"
    spy.parent.mkdir()
    real = shutil.which("tmux")
    spy.write_text(f'#!/bin/sh\nprintf "%s\\037" "$@" >>{home}/calls; echo >>{home}/calls\nexec {real} "$@"\n')
    spy.chmod(0o755)
    spied = make(PATH=f"{spy.parent}:{os.environ['PATH']}", TMUX=f"{home}/default,1,0", TMUX_PANE="%0")
    spied.open("m-1", SLEEP)
    spied.alive("m-1")
    spied.close("m-1")
    calls = [line.split("\x1f")[:-1] for line in (home / "calls").read_text().splitlines()]
    assert len(calls) >= 4
    for call in calls:
        assert call[:3] == ["-u", "-L", "orchconverge"]
        assert call[3] == "-f"
        targets = [value for flag, value in itertools.pairwise(call) if flag == "-t"]
        assert all(re.fullmatch(r"\$\d+|=m-1:", target) for target in targets)
        formats = [value for flag, value in itertools.pairwise(call) if flag in ("-F", "-p")]
        assert all(re.fullmatch(r"(#\{[a-z_]+\} ?)+", value) for value in formats)
        assert "-c" not in call
        assert "-n" not in call


@pytest.mark.parametrize("said", ["no current target", "can't find session: $0", "no server running on /s"])
def test_a_session_that_goes_while_it_is_closed_is_closed(make: Make, home: Path, said: str) -> None:
    odd = home / "bin" / "tmux"
    odd.parent.mkdir()
    answers = f"""*kill-session*) echo "{said}" >&2; exit 1;; *list-sessions*) echo '$0 m-1';;"""
    odd.write_text(f'#!/bin/sh\ncase "$*" in {answers} esac\n')
    odd.chmod(0o755)
    make(PATH=f"{odd.parent}:{os.environ['PATH']}").close("m-1")


def test_a_person_s_configuration_is_not_read(make: Make, home: Path) -> None:
    """B13."""
    hostile = (
        f'run-shell "touch {home}/canary; sleep 3"\nset -g destroy-unattached on\nset -g default-command false\n'
        f"set-hook -g session-created 'kill-server'\nset -g remain-on-exit on\nset -sg exit-empty off\n"
    )
    (home / ".tmux.conf").write_text(hostile)
    (home / ".config" / "tmux").mkdir(parents=True)
    (home / ".config" / "tmux" / "tmux.conf").write_text(hostile)
    tmux = make(XDG_CONFIG_HOME=str(home / ".config"))
    before = time.monotonic()
    tmux.open("m-1", SLEEP)
    assert time.monotonic() - before < 2.5
    assert tmux.alive("m-1") is True
    assert not (home / "canary").exists()
    pid = peer(tmux.socket_path)
    assert pid is not None
    tmux.close("m-1")
    assert gone(pid)


def test_no_session_sees_the_environment_of_whoever_started_the_server(make: Make, home: Path) -> None:
    """B18, B19: what a mind gets travels in its own spec; yesterday's and another run's values are never there."""
    for n, secret in enumerate(("yesterday", "today")):
        tmux = make(SECRET=secret, SSH_AUTH_SOCK=f"/{secret}", DISPLAY=secret, ANTHROPIC_API_KEY=secret)
        fifo = home / f"fifo{n}"
        said = told(fifo, lambda t=tmux, f=fifo, n=n: t.open(f"m-{n}", ("sh", "-c", f"env >{f}; exec sleep 600")))
        assert f"HOME={home}" in said
        assert "yesterday" not in said
        assert "today" not in said


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LANG": ""}, {"LC_ALL": "POSIX", "LANG": "C.UTF-8"}])
def test_lists_are_read_right_under_any_locale(make: Make, home: Path, locale: dict[str, str]) -> None:
    """B27, B28."""
    odd = home / "é ü\n'x"
    odd.mkdir()
    tmux = make(**{"TMUX_TMPDIR": str(odd), **locale})
    tmux.open("m-1", SLEEP)
    assert tmux.alive("m-1") is True
    tmux._server.cmd("new-session", "-d", "-s", "später ☃", "--", "sleep", "600")
    assert tmux._server.cmd("list-sessions", "-F", "#{session_name}").stdout == ["m-1", "später ☃"]
    assert tmux.alive("später ☃") is True
    tmux.close("m-1")
    assert tmux.alive("m-1") is False


@pytest.mark.parametrize(("locale", "seen"), [("C", "C.UTF-8"), ("de_DE.utf8", "de_DE.utf8")])
def test_a_pane_s_locale_is_one_of_utf_8(make: Make, home: Path, locale: str, seen: str) -> None:
    start = ("sh", "-c", f"echo $LC_ALL >{home}/fifo")
    assert told(home / "fifo", lambda: make(LC_ALL=locale).open("m-1", start)) == f"{seen}\n"


def test_nobody_else_s_sessions_are_touched(tmux: Tmux, home: Path, make: Make) -> None:
    """B30, B31: run from inside a person's own tmux, with a session of the same name there."""
    theirs = make("default")
    theirs.open("m-1", SLEEP)
    inside = make(TMUX=f"{theirs.socket_path},{peer(theirs.socket_path)},0", TMUX_PANE="%0")
    assert inside.alive("m-1") is False
    inside.open("m-1", SLEEP)
    inside.close("m-1")
    assert inside.alive("m-1") is False
    assert theirs.alive("m-1") is True


def test_a_stopped_server_cannot_be_asked_and_is_not_dead(make: Make) -> None:
    tmux = make(deadline_seconds=0.5)
    tmux.open("m-1", SLEEP)
    pid = peer(tmux.socket_path)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        before = time.monotonic()
        assert tmux.alive("m-1") is None
        with pytest.raises(Failed, match="did not answer"):
            tmux.open("m-2", SLEEP)
        with pytest.raises(Failed, match="did not answer"):
            tmux.close("m-1")
        assert time.monotonic() - before < 4
    finally:
        os.kill(pid, signal.SIGCONT)
    patient = make()
    assert patient.alive("m-1") is True
    patient.close("m-1")
    assert patient.alive("m-1") is False


def test_after_the_server_was_killed_everything_can_be_opened_again(tmux: Tmux) -> None:
    for _ in range(5):
        tmux.open("m-1", SLEEP)
        end(tmux.socket_path)
        assert tmux.alive("m-1") is False
        tmux.close("m-1")
    tmux.open("m-1", SLEEP)
    assert tmux.alive("m-1") is True


@pytest.mark.parametrize("answer", ["echo nonsense", "exit 3", "echo '$0'", "kill -9 $$", "printf '\\377\\n'"])
def test_an_answer_that_is_not_understood_is_not_taken_for_an_empty_list(make: Make, home: Path, answer: str) -> None:
    """B28."""
    fake = home / "bin" / "tmux"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{answer}\n")
    fake.chmod(0o755)
    tmux = make(PATH=f"{fake.parent}:/usr/bin:/bin")
    assert tmux.alive("m-1") is None
    with pytest.raises(Failed):
        tmux.open("m-1", SLEEP)


def test_another_version_s_server_is_named_as_the_reason(make: Make, home: Path) -> None:
    """B21, B22."""
    fake = home / "bin" / "tmux"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "protocol version mismatch (client 8, server 7)" >&2; exit 1\n')
    fake.chmod(0o755)
    tmux = make(PATH=f"{fake.parent}:/usr/bin:/bin")
    with pytest.raises(Failed, match="version mismatch") as caught:
        tmux.open("m-1", SLEEP)
    assert "upgraded" in caught.value.hint
    assert tmux.alive("m-1") is None


def test_a_command_that_tmux_cannot_carry_fails_and_opens_nothing(tmux: Tmux) -> None:
    """B36."""
    with pytest.raises(Failed, match="too long"):
        tmux.open("m-1", ("sleep", "6" * 17_000))
    with pytest.raises(Failed):
        tmux.open("m-1", ("sleep", "a\0b"))
    assert tmux.alive("m-1") is False


def test_without_tmux_the_person_is_told_what_to_type(make: Make, home: Path) -> None:
    tmux = make(PATH=str(home))
    with pytest.raises(Refused) as caught:
        tmux.open("m-1", SLEEP)
    assert "apt-get install tmux" in caught.value.hint
    assert tmux.alive("m-1") is None


def test_a_socket_path_that_is_too_long_is_refused_with_what_to_set(make: Make, home: Path) -> None:
    tmux = make(str(home / ("x" * 90) / "socket"))
    with pytest.raises(Refused) as caught:
        tmux.open("m-1", SLEEP)
    assert "TMUX_TMPDIR" in caught.value.hint
    assert tmux.alive("m-1") is False
    tmux.close("m-1")


def test_the_socket_is_where_tmux_itself_puts_it(make: Make, home: Path) -> None:
    (home / "real").mkdir()
    (home / "link").symlink_to(home / "real")
    path = home / "made for us" / "socket"
    for tmux in (make(), make("other", TMUX_TMPDIR=str(home / "link")), make(str(path))):
        tmux.open("m-1", SLEEP)
        assert tmux._server.cmd("display-message", "-p", "#{socket_path}").stdout == [str(tmux.socket_path)]
        assert peer(tmux.socket_path) is not None
    assert path.parent.stat().st_mode & 0o777 == 0o700
    nowhere = make(f"oc-none-{os.getpid()}", TMUX_TMPDIR=str(home / "missing"))
    with pytest.raises(Failed, match=re.escape(str(nowhere.socket_path))):
        nowhere._server.cmd("kill-server")


def test_the_version_is_the_installed_one(tmux: Tmux) -> None:
    assert re.fullmatch(r"(next-)?\d+\.\d+[a-z]?.*", tmux.version())


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh"])
def test_the_attach_line_attaches_from_any_shell_and_whatever_its_tmux_tmpdir(
    make: Make, home: Path, shell: str
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    place = home / "it's a $(dir) ~"
    place.mkdir()
    tmux = make(TMUX_TMPDIR=str(place))
    tmux.open("m-10", SLEEP)
    other = {"PATH": os.environ["PATH"], "TERM": "xterm", "TMUX_TMPDIR": str(home)}
    wrong = subprocess.run([program, "-c", tmux.attach_command("m-1")], env=other, capture_output=True, check=False)
    assert b"can't find session" in wrong.stderr
    with attached([program, "-c", tmux.attach_command("m-10")], seen=b"m-10", TMUX_TMPDIR=str(home)):
        assert tmux._server.cmd("list-clients", "-F", "#{session_name}").stdout == ["m-10"]
        sized = tmux._server.cmd("list-windows", "-a", "-F", "#{window_width}x#{window_height}")
        assert sized.stdout == ["200x50"]
    assert tmux.alive("m-10") is True


def test_the_attach_line_is_one_shell_word_per_argument(tmux: Tmux) -> None:
    assert tmux.attach_command("m-1").endswith(" '=m-1'")  # zsh expands an unquoted =m-1
    assert shlex.split(tmux.attach_command("m'1")) == ["tmux", "-S", str(tmux.socket_path), "attach", "-t", "=m'1"]


# --- nobody else starts tmux -----------------------------------------------------------------------------------------

RUNS = {"which", "run", "Popen", "call", "check_call", "check_output", "execv", "execvp", "execvpe", "system"}


def starts_tmux(source: str) -> bool:
    """Whether a module imports libtmux, or makes an argv whose program is tmux."""
    for node in ast.walk(ast.parse(source)):
        words: list[ast.expr] = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(name.partition(".")[0] == "libtmux" for name in names):
                return True
        elif isinstance(node, ast.List | ast.Tuple):
            words = node.elts[:1]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in RUNS:
            words = node.args[:1]
        for word in words:
            text = word.value if isinstance(word, ast.Constant) else None
            if isinstance(text, str) and re.match(r"(\S*/)?tmux( |$)", text):
                return True
    return False


@pytest.mark.parametrize(
    "source",
    [
        "import libtmux",
        "def f():\n from libtmux.server import Server",
        "subprocess.run(['tmux', 'ls'])",
        "os.system('tmux ls')",
        "x = ('/usr/bin/tmux', *rest)",
        "shutil.which('tmux')",
    ],
)
def test_the_lint_sees_who_starts_tmux(source: str) -> None:
    assert starts_tmux(source)


def test_no_other_module_of_ours_starts_tmux() -> None:
    """B25."""
    root = Path(orchconverge.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if starts_tmux(path.read_text("utf-8"))}
    assert found == {"adapters/tmux.py"}
