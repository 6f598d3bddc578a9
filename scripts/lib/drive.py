"""Makes what the first live drive converges: a parser of settings that is still missing, and a script of four minds.

python drive.py FOLDER     makes FOLDER/conf, FOLDER/remote.git, FOLDER/target.toml and FOLDER/minds.json

Three minds write the parser at once, each in its own way and with tests of its own; a fourth one later writes the writer.
What they write is real, and so is every test that is run on it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sample import git

CRITERIA = {
    "read": "python3 -m unittest tests.test_read",
    "strict": "python3 -m unittest tests.test_strict",
    "own": "python3 -m unittest discover -s tests/own -t .",
    "write": "python3 -m unittest tests.test_write",
}
"""What holds when it is done. `own` are the tests that minds bring along."""

MISSING = {
    "conf/parser.py": '''"""Reads settings: ``key = value`` lines; ``#`` begins a comment, text is quoted, other values are not."""

Settings = dict[str, "str | int | bool"]


def parse(text: str) -> Settings:
    """What the text says. Raises ValueError for what cannot be read."""
    raise NotImplementedError
''',
    "conf/writer.py": '''"""Writes settings so that they are read as they were."""

from conf.parser import Settings


def dump(settings: Settings) -> str:
    """The text that says so, a line for each setting."""
    raise NotImplementedError
''',
}
TESTS = {
    "read": """from conf.parser import parse


class Read(unittest.TestCase):
    def test_text_numbers_and_truths(self):
        self.assertEqual(parse('name = "tea"\\nsize = 3\\nhot = true\\n'), {"name": "tea", "size": 3, "hot": True})

    def test_comments_and_empty_lines_say_nothing(self):
        self.assertEqual(parse("# settings\\n\\nsize = 3 # cups\\n"), {"size": 3})

    def test_nothing_is_no_settings(self):
        self.assertEqual(parse(""), {})
""",
    "strict": """from conf.parser import parse


class Strict(unittest.TestCase):
    def test_a_hash_in_quotes_is_text(self):
        self.assertEqual(parse('note = "a # b" # c\\n'), {"note": "a # b"})

    def test_a_key_is_said_once(self):
        with self.assertRaises(ValueError):
            parse("size = 3\\nsize = 4\\n")
""",
    "write": """from conf.parser import parse
from conf.writer import dump


class Write(unittest.TestCase):
    def test_what_is_written_is_read_as_it_was(self):
        settings = {"name": 'the "good" tea', "path": "C:\\\\tea", "size": 3, "hot": True, "cold": False}
        self.assertEqual(parse(dump(settings)), settings)
        self.assertEqual(len(dump(settings).splitlines()), len(settings))
""",
}
FILES = {
    "README.md": "# conf\n\nSettings from text. Its tests say what is missing.\n",
    ".gitignore": "__pycache__/\n",
    "conf/__init__.py": '"""Settings."""\n',
    "tests/__init__.py": "",
    **MISSING,
    **{f"tests/test_{name}.py": f"import unittest\n\n{text}" for name, text in TESTS.items()},
}

TARGET = """title = "conf"
macrostate = "settings are read, strictly, and written so that they are read as they were"
termination = "all criteria hold, or 4 attempts, or 1 hour"
lock = "person"
approaches = ["minimal", "library-first", "state machine"]
""" + "".join(f'[[criteria]]\nname = "{name}"\ncommand = "{command}"\n' for name, command in CRITERIA.items())


def _parser(body: str, *, imports: str = "") -> str:
    head, _, rest = MISSING["conf/parser.py"].partition("\n")
    return f"{head}\n{imports}{rest}".replace("    raise NotImplementedError\n", body)


MINIMAL = _parser(
    """    found: Settings = {}
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if line:
            key, _, value = (part.strip() for part in line.partition("="))
            found[key] = {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value.strip('"'))
    return found
"""
)
LIBRARY_FIRST = _parser("    return tomllib.loads(text)\n", imports="\nimport tomllib\n")
STATE_MACHINE = _parser(
    """    found: Settings = {}
    for number, line in enumerate(text.splitlines(), 1):
        state, key, value = "key", "", ""
        for char in line:
            if char == "#" and state != "quoted":
                break
            if state == "key" and char == "=":
                state = "value"
            elif state == "key":
                key += char
            else:
                state = {("value", '"'): "quoted", ("quoted", '"'): "value"}.get((state, char), state)
                value += char
        key, value = key.strip(), value.strip()
        if not key and state == "key":
            continue
        if state != "value" or not key or key in found:
            raise ValueError(f"line {number}: {line!r}")
        found[key] = _value(value, number)
    return found


def _value(text: str, number: int) -> "str | int | bool":
    if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    if text.isdigit():
        return int(text)
    raise ValueError(f"line {number}: {text!r} is neither text nor number nor truth")
"""
)
WRITER = (
    MISSING["conf/writer.py"]
    .replace(
        "    raise NotImplementedError\n",
        """    return "".join(f"{key} = {json.dumps(value)}\\n" for key, value in settings.items())
""",
    )
    .replace("\n\nfrom conf", "\n\nimport json\n\nfrom conf", 1)
)

WORDS = """import unittest

from conf.parser import parse


class Words(unittest.TestCase):
    def test_a_word_needs_no_quotes(self):
        self.assertEqual(parse("name = tea"), {"name": "tea"})
"""
ESCAPES = """import unittest

from conf.parser import parse


class Escapes(unittest.TestCase):
    def test_a_quote_can_be_in_quotes(self):
        self.assertEqual(parse('name = "a \\\\"good\\\\" tea"'), {"name": 'a "good" tea'})
"""
MALFORMED = """import unittest

from conf.parser import parse

MALFORMED = ("size", "= 3", "size =", "size = 3 4", "size = three", 'name = "tea', 'name = tea"', 'name = "a" "b"')


class Malformed(unittest.TestCase):
    def test_what_cannot_be_read_is_refused(self):
        for text in MALFORMED:
            with self.subTest(text), self.assertRaises(ValueError):
                parse(text)

    def test_a_fault_is_found_behind_what_is_right(self):
        for text in MALFORMED:
            with self.subTest(text), self.assertRaises(ValueError):
                parse("size = 3\\n" + text)
"""


def commit(subject: str, criterion: str, files: Mapping[str, str]) -> list[dict[str, object]]:
    """The acts of one commit that is meant for one criterion; ``files`` is path -> text."""
    writes: list[dict[str, object]] = [{"write": {"path": path, "text": text}} for path, text in files.items()]
    return [*writes, {"commit": f"{subject}\n\nCriterion: {criterion}"}]


def mind(match: dict[str, object], said: dict[str, object], *commits: list[dict[str, object]]) -> dict[str, object]:
    """One mind: what it commits, what it used, what it leaves to say."""
    acts = [act for one in commits for act in one]
    usage = {"inputTokens": 8000, "outputTokens": 900, "usd": 0.05}
    return {"match": match, "acts": [{"say": "reading the tests"}, *acts, {"usage": usage}, {"report": said}]}


def own(name: str, text: str) -> list[dict[str, object]]:
    """The commit of a mind's own tests."""
    return commit(f"tests: {name}", "own", {"tests/own/__init__.py": "", f"tests/own/test_{name}.py": text})


SCRIPT = {
    "minds": [
        mind(
            {"approach": "minimal"},
            {"summary": "a line is split at =", "residue": [{"text": "a # in quotes breaks splitting at #"}]},
            commit("parser: split lines", "read", {"conf/parser.py": MINIMAL}),
            own("words", WORDS),
        ),
        mind(
            {"approach": "library-first"},
            {"summary": "the format is a part of TOML, and tomllib reads it"},
            commit("parser: let tomllib read", "read", {"conf/parser.py": LIBRARY_FIRST}),
            own("escapes", ESCAPES),
        ),
        mind(
            {"approach": "state machine"},
            {
                "summary": "each line is read character by character",
                "residue": [
                    {"text": "the cases of malformed input fit any parser", "paths": ["tests/own/test_malformed.py"]}
                ],
                "frontier": [{"question": "Should an error name the line?"}],
            },
            commit("parser: a state machine", "strict", {"conf/parser.py": STATE_MACHINE}),
            own("malformed", MALFORMED),
        ),
        mind(
            {"attempt": 2},
            {"summary": "JSON's scalars are the format's"},
            commit("writer: write them", "write", {"conf/writer.py": WRITER}),
        ),
    ]
}


def make(folder: Path) -> None:
    """Make the four of them. Raises `FileExistsError` if one is there."""
    conf, remote = folder / "conf", folder / "remote.git"
    remote.mkdir(parents=True)
    git(remote, "init", "--quiet", "--bare", "--initial-branch", "main")
    for name, text in FILES.items():
        path = conf / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(conf, "init", "--quiet", "--initial-branch", "main")
    git(conf, "config", "user.name", "A Person")
    git(conf, "config", "user.email", "person@example.org")
    git(conf, "add", "--all")
    git(conf, "commit", "--quiet", "--message", "Settings that nobody can read yet")
    git(conf, "remote", "add", "origin", str(remote))
    git(conf, "push", "--quiet", "--set-upstream", "origin", "main")
    git(conf, "remote", "set-head", "origin", "main")
    (folder / "target.toml").write_text(TARGET, encoding="utf-8")
    (folder / "minds.json").write_text(json.dumps(SCRIPT, indent=1), encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
