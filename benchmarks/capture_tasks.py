"""The little tasks that `capture_admission` lets real agents play: what is there, what is done turn by turn, what closes it.

Every act says which tool does it in each CLI, and the shell line that does it where there is no such tool. Which turns close
their frontier is said here, by who wrote the task. Nothing of what judges the transcripts is known.
"""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.tools.scripted_model import Call

CHECK, STYLE = "python3 check.py", "python3 style.py"
ALLOWED = ("python3", "sed", "cat", "grep", "find", "head", "nl", "printf", "tee", "cp", "mv", "rm", "mkdir", "cd")
"""What the CLIs may run, beside their own tools and git."""


@dataclass(frozen=True)
class Act(Call):
    """A call of the first of these tools that the CLI has, else of its shell."""

    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Play:
    """One turn. ``closes``: it closes its frontier; ``fresh``: a new session, though the CLI could go on with its last."""

    acts: Sequence[Act]
    closes: bool = True
    fresh: bool = False


@dataclass(frozen=True)
class Task:
    """``files`` are there at first; ``failed`` were red before; ``stage`` is (inputs, output, aliases)."""

    name: str
    words: str
    files: Mapping[str, str]
    turns: Sequence[Play]
    checks: Mapping[str, str] = field(default_factory=lambda: {"tests": CHECK})
    failed: tuple[str, ...] = ()
    expects: bool = True
    stage: tuple[tuple[str, ...], str, dict[str, str]] | None = None


@dataclass(frozen=True)
class Subject:
    """What a goal is about: one line of one file is ``bad``, a first try makes it ``wrong``, it is to be ``good``."""

    words: str
    path: str
    text: str
    bad: str
    wrong: str
    good: str

    def holding(self, line: str) -> str:
        """The file with this line."""
        return self.text.replace("LINE", line)


SUBJECTS = (
    Subject(
        "Dates like 2024-02-30 must be turned down by the parser",
        "src/dates/parser.py",
        'import datetime\n\n\ndef parse(text):\n    year, month, day = map(int, text.split("-"))\nLINE\n',
        "    return year, month, day",
        "    return datetime.date(year, month, min(day, 28))",
        "    return datetime.date(year, month, day)",
    ),
    Subject(
        "People can log in with OAuth: the login form offers it",
        "app/login_form.tsx",
        "export function LoginForm() {\n  return (\n    <form>\nLINE\n    </form>\n  );\n}\n",
        '      <input name="password" />',
        "      <a>Sign in</a>",
        '      <a href="/oauth/start">Sign in</a>',
    ),
    Subject(
        "The CSV export drops the last row, see rows.go",
        "internal/export/rows.go",
        "package export\n\nfunc rows(all []Row) []Row {\nLINE\n}\n",
        "\treturn all[:len(all)-1]",
        "\treturn all[1:]",
        "\treturn all",
    ),
    Subject(
        "Replace the home-made eviction of the LRU cache",
        "lib/cache/lru.rb",
        "class Lru\n  def evict\nLINE\n  end\nend\n",
        "    @items.delete(@items.keys.first)",
        "    @items.clear",
        "    @items.shift",
    ),
    Subject(
        "The README says how to install it",
        "README.md",
        "# sample\n\nIt does one thing.\n\nLINE\n",
        "Installation: to be written.",
        "Installation: see elsewhere.",
        "Installation: pipx install sample",
    ),
    Subject(
        "ledger.verify must name the bad line",
        "tool/ledger.py",
        "def verify(lines):\n    for number, line in enumerate(lines, 1):\n        if not line:\nLINE\n",
        "            return False",
        '            raise ValueError("bad")',
        '            raise ValueError(f"line {number} is empty")',
    ),
    Subject(
        "Rounding in InvoiceTotal is wrong",
        "src/main/java/InvoiceTotal.java",
        "class InvoiceTotal {\n  long cents(double amount) {\nLINE\n  }\n}\n",
        "    return (long) (amount * 100);",
        "    return (long) Math.ceil(amount * 100);",
        "    return Math.round(amount * 100);",
    ),
    Subject(
        "The deploy job has to run on tags only",
        ".github/workflows/deploy.yaml",
        "name: deploy\non:\n  push:\nLINE\njobs: {}\n",
        "    branches: [main]",
        "    branches: [release]",
        '    tags: ["v*"]',
    ),
    Subject(
        "Links in the dark theme cannot be read",
        "web/styles/theme-dark.css",
        "body { background: #111; }\nLINE\n",
        "a { color: #223; }",
        "a { color: #000; }",
        "a { color: #9cf; }",
    ),
    Subject(
        "Orders are slow to find by customer: they need an index",
        "db/0007_orders.sql",
        "CREATE TABLE orders (id INTEGER, customer INTEGER);\nLINE\n",
        "-- no index yet",
        "CREATE INDEX by_id ON orders (id);",
        "CREATE INDEX by_customer ON orders (customer);",
    ),
    Subject(
        "`make clean` in the Makefile has to remove build/",
        "Makefile",
        "all:\n\tcc -o build/a a.c\nclean:\nLINE\n",
        "\ttrue",
        "\trm -f a.o",
        "\trm -r build/",
    ),
)
BESIDE = {
    "docs/why.md": "# Why\n\nBecause it was not there.\n",
    "docs/how.md": "# How\n\nStep by step.\n",
    "setup.cfg": "[metadata]\nname = sample\n",
    "package.json": '{"name": "sample"}\n',
    "src/strings.py": "def upper(text):\n    return text.upper()\n",
    "src/numbers.py": "def half(number):\n    return number / 2\n",
    "src/paths.py": "def join(*parts):\n    return '/'.join(parts)\n",
    "src/colours.py": "RED = '#f00'\n",
    "src/clock.py": "def now():\n    return 0\n",
    "src/queue.py": "class Queue(list):\n    pass\n",
    "src/shape.py": "class Shape:\n    sides = 0\n",
    "src/units.py": "METRE = 1\n",
    "src/words.py": "WORDS = []\n",
    "tools/gen.sh": "echo generated\n",
}
STYLED = 'import pathlib, sys\nsys.exit("FIXME" in pathlib.Path({path!r}).read_text())\n'
CHECKED = (
    "import pathlib, sys\nfile = pathlib.Path({path!r})\n"
    "sys.exit(0 if file.exists() and {needle!r} in file.read_text().splitlines() else {path!r} + ' is not as it should be')\n"
)
GONE = "import pathlib, sys\nsys.exit(pathlib.Path({path!r}).exists())\n"


@dataclass
class Hand:
    """What does the acts: in ``tree``, reporting to ``report``, as ``engine`` would, drawn from ``draw``."""

    engine: str
    tree: Path
    report: Path
    draw: random.Random

    def look(self, path: str) -> Act:
        """Read a file."""
        at = str(self.tree / path)
        shell = self.draw.choice(["cat {}", "sed -n '1,200p' {}", "nl -ba {}", "head -n 200 {}"]).format(path)
        spelt = self.draw.choice([path, at])
        return Act(
            "run",
            command=shell,
            tools={"Read": {"file_path": at}, "read_file": {"file_path": spelt}, "read": {"filePath": spelt}},
        )

    def looks(self, count: int) -> list[Act]:
        """So many files that are beside the point, or searches for them."""
        names = self.draw.sample(sorted(BESIDE), count)
        return [self.find(name) if self.draw.random() < 0.2 else self.look(name) for name in names]

    def find(self, path: str) -> Act:
        """A search for a file by its name."""
        name = Path(path).name
        shell = f"find . -name {shlex.quote(name)} -not -path './.git/*'"
        of = {"pattern": f"**/{name}"}
        return Act("run", command=shell, tools={"Glob": of, "glob": of})

    def search(self, words: str) -> Act:
        """A search in all files."""
        of = {"pattern": words}
        return Act("run", command=f"grep -rn {shlex.quote(words)} .", tools={"Grep": of, "grep_search": of, "grep": of})

    def make(self, path: str, text: str) -> Act:
        """The whole file anew."""
        at = str(self.tree / path)
        folder = f"mkdir -p {Path(path).parent} && " if "/" in path else ""
        told = f"{folder}cat > {path} <<'EOF'\n{text}EOF"
        if self.engine == "codex":
            told = self.draw.choice([told, self.patch(path, None, text).command])
        return Act(
            "write",
            path=path,
            text=text,
            command=told,
            tools={
                "Write": {"file_path": at, "content": text},
                "write": {"filePath": at, "content": text},
                "write_file": {"file_path": self.draw.choice([path, at]), "content": text},
            },
        )

    def change(self, path: str, old: str, new: str) -> Act:
        """One line of a file."""
        at = str(self.tree / path)
        code = f"import pathlib; p = pathlib.Path({path!r}); p.write_text(p.read_text().replace({old!r}, {new!r}))"
        lines = [f"python3 -c {shlex.quote(code)}", self.sed(path, old, new).command]
        if self.engine == "codex":
            lines = [self.patch(path, old, new).command]
        return Act(
            "run",
            command=self.draw.choice(lines),
            tools={
                "Edit": {"file_path": at, "old_string": old, "new_string": new},
                "edit": {"filePath": at, "oldString": old, "newString": new},
                "replace": {"file_path": path, "instruction": "make it so", "old_string": old, "new_string": new},
            },
        )

    def sed(self, path: str, old: str, new: str) -> Act:
        """One line of a file, by the stream editor."""
        was = "".join(f"\\{c}" if c in "\\[]*.^$|" else c for c in old)
        now = "".join(f"\\{c}" if c in "\\&|" else c for c in new)
        return self.shell(f"sed -i {shlex.quote(f's|^{was}$|{now}|')} {path}")

    def patch(self, path: str, old: str | None, new: str) -> Act:
        """As codex patches: a new file, or one line of one."""
        if old is None:
            body = f"*** Add File: {path}\n" + "".join(f"+{line}\n" for line in new.splitlines())
        else:
            body = f"*** Update File: {path}\n@@\n-{old}\n+{new}\n"
        return self.shell(f"apply_patch <<'EOF'\n*** Begin Patch\n{body}*** End Patch\nEOF")

    def shell(self, command: str) -> Act:
        """A command line."""
        return Act("run", command=command)

    def check(self) -> Act:
        """The check of the task, as a mind would run it."""
        return self.shell(self.draw.choice([CHECK, CHECK, f"cd {self.tree} && {CHECK}"]))

    def told(self, summary: str, verdict: Mapping[str, str] | None = None) -> list[Act]:
        """The mind's own report, which aider cannot write and some forget."""
        if verdict is None and self.draw.random() < 0.4:
            return []
        return [self.make(str(self.report), json.dumps({"summary": summary, "residue": [], "verdict": verdict}) + "\n")]

    def commit(self) -> list[Act]:
        """What was done, committed; codex cannot, and does not try."""
        return [] if self.engine == "codex" else [self.shell("git add -A && git commit -q -m 'as asked'")]

    def ends(self, summary: str = "done as asked") -> list[Act]:
        """How a turn ends that did something."""
        return [*self.told(summary), *self.commit()]


def repository(s: Subject, *, start: str | None = "", path: str = "", needle: str = "") -> dict[str, str]:
    """The files of a task: ``start`` is what the subject's file holds, ``None`` if it is still to be made."""
    files = dict(BESIDE)
    files["check.py"] = CHECKED.format(path=path or s.path, needle=needle or s.good)
    if start is not None:
        files[s.path] = start or s.holding(s.bad)
    return files


def reads_writes(h: Hand, s: Subject) -> Task:
    acts = [*h.looks(3), h.make(s.path, s.holding(s.good)), h.check(), *h.ends()]
    return Task("reads-writes", s.words, repository(s, start=None), [Play(acts)])


def reads_edits(h: Hand, s: Subject) -> Task:
    acts = [*h.looks(2), h.look(s.path), h.change(s.path, s.bad, s.good), h.check(), *h.ends()]
    return Task("reads-edits", s.words, repository(s), [Play(acts)])


def searches_first(h: Hand, s: Subject) -> Task:
    word = s.bad.split()[0].strip("({")
    acts = [h.search(word), h.find(s.path), *h.looks(2), h.look(s.path), h.change(s.path, s.bad, s.good), *h.ends()]
    return Task("searches-first", s.words, repository(s), [Play(acts)])


def several_files(h: Hand, s: Subject) -> Task:
    beside = [h.make("docs/notes.md", "It is done.\n"), h.make("src/extra.py", "EXTRA = True\n")]
    acts = [*h.looks(2), beside[0], h.make(s.path, s.holding(s.good)), beside[1], *h.ends()]
    return Task("several-files", s.words, repository(s, start=None), [Play(acts)])


def unrelated_beside(h: Hand, s: Subject) -> Task:
    aside = h.change("src/units.py", "METRE = 1", "METRE = 1.0")
    acts = [h.look("src/units.py"), h.look(s.path), h.change(s.path, s.bad, s.good), aside, h.check(), *h.ends()]
    return Task("unrelated-beside", s.words, repository(s), [Play(acts)])


def mends_a_check(h: Hand, s: Subject) -> Task:
    first = [h.check(), h.look(s.path), h.change(s.path, s.bad, s.wrong), h.check(), h.look(s.path)]
    acts = [*first, h.change(s.path, s.wrong, s.good), h.check(), *h.ends()]
    return Task("mends-a-check", s.words, repository(s), [Play(acts)], failed=("tests",), expects=False)


def mends_in_two_turns(h: Hand, s: Subject) -> Task:
    one = [h.look(s.path), h.change(s.path, s.bad, s.wrong), h.check(), *h.commit()]
    two = [h.look(s.path), h.change(s.path, s.wrong, s.good), h.check(), *h.ends()]
    turns = [Play(one, closes=False), Play(two)]
    return Task("mends-in-two-turns", s.words, repository(s), turns, failed=("tests",), expects=False)


def wrong_first(h: Hand, s: Subject) -> Task:
    one = [*h.looks(2), h.make(s.path, s.holding(s.wrong)), *h.ends()]
    two = [*h.looks(1), h.look(s.path), h.make(s.path, s.holding(s.good)), h.check(), *h.ends()]
    return Task("wrong-first", s.words, repository(s, start=None), [Play(one, closes=False), Play(two)])


def reads_then_another_turn(h: Hand, s: Subject) -> Task:
    two = [h.look(s.path), h.change(s.path, s.bad, s.good), h.check(), *h.ends()]
    return Task("reads-then-another-turn", s.words, repository(s), [Play(h.looks(5), closes=False), Play(two)])


def reads_again_in_a_new_session(h: Hand, s: Subject) -> Task:
    names = h.draw.sample(sorted(BESIDE), 5)
    two = [*map(h.look, names), h.look(s.path), h.change(s.path, s.bad, s.good), *h.ends()]
    turns = [Play([*map(h.look, names), h.look(s.path)], closes=False), Play(two, fresh=True)]
    return Task("reads-again-in-a-new-session", s.words, repository(s), turns)


def moves(h: Hand, s: Subject) -> Task:
    new = str(Path(s.path).with_name("moved-" + Path(s.path).name))
    words = f"{s.path} is to be called {new}"
    acts = [h.look(s.path), *h.looks(2), h.shell(f"{_mv(h)} {s.path} {new}"), h.check(), *h.ends()]
    return Task("moves", words, repository(s, path=new, needle=s.bad), [Play(acts)])


def _mv(h: Hand) -> str:
    return "mv" if h.engine == "codex" else "git mv"


def removes(h: Hand, s: Subject) -> Task:
    files = repository(s)
    files["check.py"] = GONE.format(path=s.path)
    line = f"rm {s.path}" if h.engine == "codex" or h.draw.random() < 0.5 else f"git rm -q {s.path}"
    acts = [h.search(Path(s.path).stem), h.look(s.path), h.shell(line), h.check(), *h.ends()]
    return Task("removes", f"{s.path} is not needed any more: remove it", files, [Play(acts)])


def by_redirection(h: Hand, s: Subject) -> Task:
    made = h.shell(f"cat > {s.path} <<'EOF'\n{s.holding(s.good)}EOF")
    acts = [h.shell("git status --short"), *h.looks(2), h.shell(f"cat {s.path}"), made, h.check(), *h.ends()]
    return Task("by-redirection", s.words, repository(s), [Play(acts)])


def by_tee(h: Hand, s: Subject) -> Task:
    made = h.shell(f"printf '%s\\n' {shlex.quote(s.good)} | tee -a {s.path}")
    return Task("by-tee", s.words, repository(s), [Play([*h.looks(2), h.look(s.path), made, h.check(), *h.ends()])])


def by_sed(h: Hand, s: Subject) -> Task:
    acts = [h.shell(f"grep -n . {s.path}"), h.sed(s.path, s.bad, s.good), h.shell("git diff"), h.check(), *h.ends()]
    return Task("by-sed", s.words, repository(s), [Play(acts)])


def by_python(h: Hand, s: Subject) -> Task:
    code = f"import pathlib; p = pathlib.Path({s.path!r}); p.write_text(p.read_text().replace({s.bad!r}, {s.good!r}))"
    acts = [*h.looks(2), h.look(s.path), h.shell(f"python3 -c {shlex.quote(code)}"), h.check(), *h.ends()]
    return Task("by-python", s.words, repository(s), [Play(acts)])


def by_a_long_line(h: Hand, s: Subject) -> Task:
    """A command that is longer than what is taken apart."""
    rows = "".join(f"    # row {n:04} of a table that nobody reads\n" for n in range(110))
    code = f"import pathlib\np = pathlib.Path({s.path!r})\ntable = '''\n{rows}'''\n"
    code += f"p.write_text(p.read_text().replace({s.bad!r}, {s.good!r}))\n"
    acts = [h.look(s.path), h.shell(f"python3 - <<'EOF'\n{code}EOF"), h.check(), *h.ends()]
    return Task("by-a-long-line", s.words, repository(s), [Play(acts)])


def by_a_generator(h: Hand, s: Subject) -> Task:
    files = repository(s, start=None)
    folder = str(Path(s.path).parent)
    files["tools/gen.py"] = (
        f"import pathlib\nfolder = pathlib.Path({folder!r})\nfolder.mkdir(parents=True, exist_ok=True)\n"
        f"pathlib.Path({s.path!r}).write_text({s.holding(s.good)!r})\n"
    )
    acts = [h.look("tools/gen.py"), h.look("tools/gen.sh"), h.shell("python3 tools/gen.py"), h.check(), *h.ends()]
    return Task("by-a-generator", s.words, files, [Play(acts)])


def by_copying(h: Hand, s: Subject) -> Task:
    files = repository(s)
    files["templates/new"] = s.holding(s.good)
    acts = [h.find("templates/new"), h.look("templates/new"), h.shell(f"cp templates/new {s.path}"), *h.ends()]
    return Task("by-copying", s.words, files, [Play(acts)])


def by_patch(h: Hand, s: Subject) -> Task:
    acts = [*h.looks(2), h.look(s.path), h.patch(s.path, s.bad, s.good), h.patch("docs/new.md", None, "New.\n")]
    return Task("by-patch", s.words, repository(s), [Play([*acts, h.check(), *h.ends()])])


def first_edit_fails(h: Hand, s: Subject) -> Task:
    missed = h.change(s.path, "what is not in it", s.good)
    acts = [*h.looks(3), h.look(s.path), missed, h.look(s.path), h.change(s.path, s.bad, s.good), *h.ends()]
    return Task("first-edit-fails", s.words, repository(s), [Play(acts)])


def rejected_then_allowed(h: Hand, s: Subject) -> Task:
    """A program that is not granted; where there is a sandbox instead, a folder that is read-only."""
    refused = h.shell(f"perl -pi -e 's/a/b/' {s.path}" if h.engine != "codex" else "printf x > .git/description")
    acts = [h.look(s.path), refused, h.change(s.path, s.bad, s.good), h.check(), *h.ends()]
    return Task("rejected-then-allowed", s.words, repository(s), [Play(acts)])


def outside_first(h: Hand, s: Subject) -> Task:
    """A file outside of the tree is written, or is not let be, and then the right one."""
    outside = h.make(str(h.tree.parent / "elsewhere" / "notes.txt"), "notes\n")
    acts = [h.look(s.path), outside, h.change(s.path, s.bad, s.good), *h.ends()]
    return Task("outside-first", s.words, repository(s), [Play(acts)])


def large_file(h: Hand, s: Subject) -> Task:
    filler = "".join(f"# line {n:05} of a long file\n" for n in range(1500))
    files = repository(s, start=filler + s.holding(s.bad))
    acts = [h.search(s.bad.strip()[:12]), h.look(s.path), h.change(s.path, s.bad, s.good), h.check(), *h.ends()]
    return Task("large-file", s.words, files, [Play(acts)])


def many_changes_of_one_file(h: Hand, s: Subject) -> Task:
    first, again = h.change(s.path, s.bad, s.wrong), h.change(s.path, s.wrong, s.good)
    acts = [h.look(s.path), first, h.look(s.path), again, h.look(s.path), h.check(), *h.ends()]
    return Task("many-changes-of-one-file", s.words, repository(s), [Play(acts)])


def reads_more_than_enough(h: Hand, s: Subject) -> Task:
    acts = [*h.looks(9), h.look(s.path), h.change(s.path, s.bad, s.good), h.check(), *h.ends()]
    return Task("reads-more-than-enough", s.words, repository(s), [Play(acts)])


def staged(h: Hand, inputs: int) -> Task:
    names = tuple(f"docs/input{n}.md" for n in range(inputs))
    files = dict(BESIDE) | {name: f"# Input\n\nRule {number}.\n" for number, name in enumerate(names)}
    files["check.py"] = CHECKED.format(path="docs/plan.md", needle="## Steps")
    plan = h.make("docs/plan.md", "# Plan\n\n## Steps\n\n1. All of it.\n")
    turns = [Play([*map(h.look, names), plan, *h.ends("planned")])]
    return Task(
        f"a-stage-with-{inputs}-inputs", "Plan it", files, turns, stage=(names, "docs/plan.md", {"spec": names[0]})
    )


def a_stage(h: Hand, s: Subject) -> Task:
    return staged(h, h.draw.randint(2, 4))


def a_wide_stage(h: Hand, s: Subject) -> Task:
    return staged(h, 10)


def two_pieces(h: Hand, s: Subject) -> Task:
    files = repository(s, start=s.holding(s.bad) + "FIXME\n")
    files["style.py"] = STYLED.format(path=s.path)
    one = [*h.looks(2), h.look(s.path), h.change(s.path, s.bad, s.good), h.check(), *h.ends()]
    two = [h.look(s.path), h.change(s.path, "FIXME", "END"), h.shell(STYLE), *h.ends()]
    return Task(
        "two-pieces", s.words, files, [Play(one), Play(two, fresh=True)], checks={"tests": CHECK, "style": STYLE}
    )


def breaks_and_mends(h: Hand, s: Subject) -> Task:
    files = repository(s)
    files["style.py"] = STYLED.format(path=s.path)
    one = [h.look(s.path), h.make(s.path, s.holding(s.good) + "FIXME\n"), h.check(), *h.ends()]
    two = [h.shell(STYLE), h.look(s.path), h.change(s.path, "FIXME", "END"), h.shell(STYLE), *h.ends()]
    checks = {"tests": CHECK, "style": STYLE}
    return Task("breaks-and-mends", s.words, files, [Play(one, closes=False), Play(two)], checks=checks)


def an_honest_verdict(h: Hand, s: Subject) -> Task:
    verdict = {"kind": h.draw.choice(["cannot", "needs_person", "unsafe"]), "text": "nobody says which one is meant"}
    acts = [h.check(), h.look(s.path), *h.looks(3), *h.told("it cannot be told", verdict)]
    return Task("an-honest-verdict", s.words, repository(s), [Play(acts)], failed=("tests",), expects=False)


def nobody_named(h: Hand, s: Subject) -> Task:
    """The words name no file: what the work is for shows in the check."""
    files = repository(s, path="src/shape.py", needle="    sides = 4")
    acts = [
        *h.looks(3),
        h.look("src/shape.py"),
        h.change("src/shape.py", "sides = 0", "sides = 4"),
        h.check(),
        *h.ends(),
    ]
    return Task("nobody-named", "A rectangle is drawn with no corners", files, [Play(acts)])


def in_words(h: Hand, s: Subject) -> Task:
    return Task("in-words", s.words, repository(s), [Play([h.make(s.path, s.holding(s.good))])])


def several_in_words(h: Hand, s: Subject) -> Task:
    acts = [h.make("docs/notes.md", "It is done.\n"), h.make(s.path, s.holding(s.good))]
    return Task("several-in-words", s.words, repository(s, start=None), [Play(acts)])


def twice_in_words(h: Hand, s: Subject) -> Task:
    turns = [Play([h.make(s.path, s.holding(s.wrong))], closes=False), Play([h.make(s.path, s.holding(s.good))])]
    return Task("twice-in-words", s.words, repository(s), turns)


Shape = Callable[[Hand, Subject], Task]
SHAPES: tuple[Shape, ...] = (
    reads_writes, mends_a_check, rejected_then_allowed, a_stage, by_redirection, reads_edits, first_edit_fails, moves,
    several_files, by_sed, reads_again_in_a_new_session, an_honest_verdict, unrelated_beside, by_python, wrong_first,
    removes, searches_first, mends_in_two_turns, outside_first, by_a_generator, two_pieces, large_file, by_a_long_line,
    a_wide_stage, many_changes_of_one_file, by_copying, reads_then_another_turn, breaks_and_mends,
    reads_more_than_enough, by_tee, nobody_named,
)  # fmt: skip
IN_WORDS: tuple[Shape, ...] = (in_words, several_in_words, twice_in_words)
COUNTS = {
    "claude": 21, "codex": 21, "gemini": 17, "opencode": 17, "mini": 12, "aider": 6, "acp:claude": 3, "acp:opencode": 3,
}  # fmt: skip
"""Engine -> how many tasks it plays; together a hundred."""
UNLIMITED = frozenset({"mini"})
"""Who is refused nothing."""


def task(engine: str, number: int, tree: Path, report: Path) -> Task:
    """Task ``number`` of an engine. Each begins at another shape, so that together they play all."""
    all_of: tuple[Shape, ...] = (*SHAPES, by_patch) if engine == "codex" else SHAPES
    if engine == "aider":
        all_of = IN_WORDS
    if engine in UNLIMITED:
        all_of = tuple(one for one in all_of if one is not rejected_then_allowed)
    place = list(COUNTS).index(engine)
    shape, subject = all_of[(7 * place + number) % len(all_of)], SUBJECTS[(3 * place + number) % len(SUBJECTS)]
    if engine == "gemini" and subject.path == "Makefile":  # a person has to allow each change of such a file there
        subject = SUBJECTS[0]
    return shape(Hand(engine, tree, report, random.Random(f"{engine} {number}")), subject)
