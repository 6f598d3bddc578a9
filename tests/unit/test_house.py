"""The rules of the house, held on the source itself: who imports whom, sizes, docstrings, no shell, help, no machine's paths."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "orchconverge"

ROOMS = {
    "errors": 0,
    "files": 1,
    "whereabouts": 1,
    "core": 2,
    "ports": 3,
    "processes": 3,
    "adapters": 4,
    "app": 4,
    "fields": 4,
    "config": 5,
    "target_file": 6,
    "schema": 7,
    "bootstrap": 8,
    "tui": 9,
    "cli": 10,
    "__main__": 11,
}
"""Each first part of a module's name -> its storey. Imports go down, or stay in the room."""
ALONE = frozenset({"pane", "hook", "acp_client"})
"""Programs of their own: they import nothing of ours, and nobody imports them."""
PURE = frozenset({"core", "ports"})
"""Rooms that know nothing of this machine."""
MACHINE = frozenset({"files", "whereabouts", "processes"})
"""Light modules about this machine, for everyone above the core; `app` alone asks the `Host` port about processes."""
MOST_LINES = {"pane.py": 600}
HEAVY = (
    *("pydantic", "pydantic_core", "pydantic_settings", "libtmux", "git", "apscheduler", "textual", "rich", "click"),
    *("psutil", "platformdirs", "asyncio", "subprocess", "multiprocessing", "logging", "socket", "random"),
    *("github", "requests", "nacl", "cryptography"),
)
ARGV_CALLS = re.compile(r"(run|Popen|call|check_call|check_output|which|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?)$")
SHELLS = re.compile(r"(?:os\.(?:system|popen)|subprocess\.getoutput|subprocess\.getstatusoutput)$")


@cache
def source() -> dict[str, tuple[Path, ast.Module]]:
    """Every module of ours by its dotted name, without ``orchconverge.``; the package itself is ``""``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = (path, ast.parse(path.read_text(encoding="utf-8"), str(path)))
    return found


def room(module: str) -> str:
    return module.split(".")[0]


def imported(module: str) -> Iterator[tuple[str, int]]:
    """Modules of ours that a module imports, wherever it does so, with the line: lazily, for types alone, by a string."""
    path, tree = source()[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((ours(alias.name), node.lineno) for alias in node.names if is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = ["orchconverge", *package][: len(package) + 2 - node.level]
                base = ".".join([*above, *([base] if base else [])])
            if is_ours(base):
                for alias in node.names:
                    deeper = ours(f"{base}.{alias.name}")
                    yield (deeper if deeper in source() else ours(base)), node.lineno
        elif isinstance(node, ast.Call) and called(node).endswith(("import_module", "__import__")):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and is_ours(str(argument.value)):
                    yield ours(str(argument.value)), node.lineno


def is_ours(name: str) -> bool:
    return name.split(".")[0] == "orchconverge"


def ours(name: str) -> str:
    return name.partition(".")[2]


def called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def one_thing(one: str, other: str) -> bool:
    """Whether two adapters are about one thing: both engines, or files with one first word (git, git_trees)."""
    left, right = one.split(".")[1:], other.split(".")[1:]
    if not left or not right:  # the package itself holds nothing
        return True
    if left[0] in ("engines", "forges") or right[0] in ("engines", "forges"):
        return left[0] == right[0]
    return left[0].split("_")[0] == right[0].split("_")[0]


def forbidden(module: str, target: str) -> str:
    """Why this module may not import that one; empty if it may."""
    if not target:
        return ""  # the package itself: its version
    here, there = room(module), room(target)
    if here != there and (here in ALONE or there in ALONE):
        return "programs of their own import nothing of ours, and nobody imports them"
    if here == there == "adapters":
        return "" if one_thing(module, target) else "adapters are strangers to one another"
    if here == there:
        return ""
    if here in PURE and there in MACHINE:
        return f"{here} knows no {there}"
    if (here, there) == ("app", "processes"):
        return "app asks the Host port"
    if ROOMS[here] == ROOMS[there]:
        return f"{here} and {there} are strangers, one storey beside the other"
    return "" if ROOMS[here] > ROOMS[there] else f"{there} stands above {here}"


def test_every_module_has_a_room() -> None:
    homeless = {room(name) for name in source() if name} - set(ROOMS) - ALONE
    assert not homeless, "give each a storey in ROOMS, or move it into a room that is there"


def test_imports_go_one_way() -> None:
    wrong = [
        f"{source()[module][0].relative_to(ROOT)}:{line} imports {target}: {why}"
        for module in source()
        if module
        for target, line in imported(module)
        if (why := forbidden(module, target))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("core.policy", "ports"),
        ("core.policy", "files"),
        ("ports", "adapters.git"),
        ("app.controller", "adapters.git"),
        ("adapters.git", "app.controller"),
        ("adapters.git", "adapters.tmux"),
        ("adapters.git", "adapters.engines.claude"),
        ("adapters.engines.claude", "adapters.git"),
        ("adapters.git", "config"),
        ("config", "bootstrap"),
        ("bootstrap", "cli.main"),
        ("whereabouts", "core.target"),
        ("core.values", "processes"),
        ("ports", "processes"),
        ("app.control", "processes"),
        ("processes", "ports"),
        ("processes", "adapters.host"),
        ("errors", "whereabouts"),
        ("pane", "errors"),
        ("app.minds", "pane"),
    ],
)
def test_the_rule_of_imports_knows_what_is_wrong(module: str, target: str) -> None:
    assert forbidden(module, target)


@pytest.mark.parametrize(
    ("module", "target"),
    [(room, light) for room in ("adapters.host", "config", "bootstrap", "cli.status") for light in sorted(MACHINE)]
    + [("processes", "core.values"), ("adapters.git", "adapters.git_trees"), ("app.minds", "whereabouts")],
)
def test_the_rule_of_imports_knows_what_is_right(module: str, target: str) -> None:
    assert not forbidden(module, target)


def test_no_modules_import_one_another_in_a_circle() -> None:
    # A package's __init__ is a module as any other: `from orchconverge.core import events` is about events.
    graph = {name: {target for target, _ in imported(name) if target in source()} for name in source() if name}
    while ends := [
        name
        for name, targets in graph.items()
        if not targets & graph.keys() - {name} or all(name not in graph[other] for other in graph.keys() - {name})
    ]:
        for name in ends:
            del graph[name]
    circle = sorted(graph)
    assert not circle, f"among these: {', '.join(circle)}"


def test_no_file_is_longer_than_can_be_read_at_once() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path, _ in source().values()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES.get(path.name, 400)
    }
    assert not long, "split it by what it owns"


def public(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from public(node.body + node.orelse, prefix)
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        marks = {ast.unparse(mark).split(".")[-1] for mark in node.decorator_list}
        if not marks & {"overload", "override", "setter"}:
            yield f"{prefix}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from public(node.body, f"{prefix}{node.name}.")


def test_everything_public_says_what_it_is() -> None:
    silent = []
    for path, tree in source().values():
        if not ast.get_docstring(tree):
            silent.append(f"{path.relative_to(ROOT)}:1 the module")
        for name, node in public(tree.body, ""):
            assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if not (ast.get_docstring(node) or "").strip():
                silent.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert not silent, "\n".join(silent)


def test_no_shell_is_started() -> None:
    found = []
    for path, tree in source().values():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            shell = next((word.value for word in node.keywords if word.arg == "shell"), None)
            given = shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False)
            if given or SHELLS.search(called(node)) or called(node).endswith("create_subprocess_shell"):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {called(node)}")
    assert not found, "argv form only: " + "\n".join(found)


def argv_words(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """First words of every list and tuple, and of every call that starts or looks for a program."""
    for node in ast.walk(tree):
        first = None
        if isinstance(node, ast.List | ast.Tuple) and node.elts and isinstance(node.ctx, ast.Load):
            first = node.elts[0]
        elif isinstance(node, ast.Call) and node.args and ARGV_CALLS.search(called(node)):
            first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value, node.lineno


def test_tmux_is_started_in_one_place() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, tree in source().values()
        if path != PACKAGE / "adapters" / "tmux.py"
        for word, line in argv_words(tree)
        if word.split(" ")[0].split("/")[-1] == "tmux"
    ]
    assert not found, "only adapters/tmux.py starts tmux: " + ", ".join(found)


def test_libtmux_is_known_in_one_place() -> None:
    importers = {
        str(path.relative_to(ROOT))
        for path, tree in source().values()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "libtmux" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "libtmux")
    }
    assert importers <= {"orchconverge/adapters/tmux.py"}


def loaded_by(modules: list[str]) -> set[str]:
    """What a fresh interpreter has loaded, by top-level name, after it imported these."""
    program = f"import sys\nfor each in {modules!r}: __import__(each)\nprint(*{{m.split('.')[0] for m in sys.modules}})"
    argv = [sys.executable, "-c", program]
    answer = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.split())


def test_the_core_loads_nothing_heavy() -> None:
    core = [f"orchconverge.{name}" for name in source() if room(name) == "core"]
    assert not loaded_by(core) & set(HEAVY) - loaded_by([])


def test_the_supervisor_is_the_standard_library_alone() -> None:
    path, tree = source()["pane"]
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= set(sys.stdlib_module_names), "it runs with -S: nothing else is there"
    program = (
        "import sys\n"
        "with open(sys.argv[1], encoding='utf-8') as file: code = compile(file.read(), 'pane.py', 'exec')\n"
        "exec(code, {'__name__': 'pane'})\n"
        "print(*sys.modules)"
    )
    argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", program, str(path)]
    loaded = set(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split())
    assert not loaded & {*HEAVY, "dataclasses", "pathlib", "typing", "tempfile", "shutil", "threading"}


def test_every_command_has_help() -> None:
    import click

    from orchconverge.cli import COMMANDS
    from orchconverge.cli.group import HOMES, SECTIONS, orchconverge

    assert set(COMMANDS) == set(HOMES), "a first word is a command in both lists, or in none"
    listed = " ".join(SECTIONS.values()).split()
    assert sorted(listed) == sorted(name for name in HOMES if not name.startswith("_")), (
        "each has one place in the help"
    )
    silent = []

    def look(command: click.Command, name: str) -> None:
        if not (command.help or "").strip():
            silent.append(name)
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden and not (parameter.help or "").strip():
                silent.append(f"{name} {parameter.opts[0]}")
        if isinstance(command, click.Group):
            context = click.Context(command)
            for each in command.list_commands(context):
                found = command.get_command(context, each)
                assert found is not None, f"{name} lists {each} and does not have it"
                look(found, f"{name} {each}")

    look(orchconverge, "orchconverge")
    assert not silent, "no help: " + ", ".join(silent)


def tracked() -> list[Path]:
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    if answer.returncode != 0:
        pytest.skip("not a git checkout: nothing is tracked")
    return [path for name in answer.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    homes = [r"/(?:home|Users)/(?!(?:you|user|me|person|nobody|somebody)\b)[a-z_][\w.-]*/", r"/[r]oot/(?=[\w.])"]
    if len(Path.home().parts) > 1:
        homes.append(re.escape(str(Path.home())) + "/")
    pattern = re.compile(r"(?<![\w.$~{}/-])(?:" + "|".join(homes) + ")")
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path == Path(__file__):
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number} {line.strip()[:100]}"
            for number, line in enumerate(text.splitlines(), 1)
            if pattern.search(line)
        ]
    assert not found, "\n".join(found)
