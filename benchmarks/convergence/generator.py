"""Writes the repository of a task: K features as stubs, one real test for each, and where their lines lie beside one another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Files = Mapping[str, str]
"""Path -> text."""

LAYOUTS = ("spread", "one-file-spread", "quarter-reg", "sorted-reg", "tight", "half-reg", "registry", "rewrite")
"""Where the features lie; nothing else decides which parts of rivals come apart.

`spread`: a file for each. `one-file-spread`: one file, six blank lines between. `tight`: one file, one line each, none
between. `quarter-reg`, `half-reg`, `registry`: a file for each, and every fourth (second, each) is appended to one list.
`sorted-reg`: each is put where the alphabet has it, into a list with two new names between each two old. `rewrite`: one
file, which every mind first writes anew in its own order and words.
"""
STUB = "raise NotImplementedError"
REGISTRY = "parts/registry.py"


@dataclass(frozen=True)
class Family:
    """A kind of feature: what it is to compute, and two ways to write it. ``{v}`` is a name, ``{c}`` a constant."""

    meaning: Callable[[list[int], int], object]
    ways: tuple[str, str]


FAMILIES = (
    Family(lambda xs, c: sum(x * c for x in xs), ("sum({v} * {c} for {v} in values)", "{c} * sum(values)")),
    Family(
        lambda xs, c: sum(x > c for x in xs),
        ("sum(1 for {v} in values if {v} > {c})", "len([{v} for {v} in values if {v} > {c}])"),
    ),
    Family(
        lambda xs, c: [x + c for x in xs],
        ("[{v} + {c} for {v} in values]", "list(map(lambda {v}: {c} + {v}, values))"),
    ),
    Family(
        lambda xs, c: [x % c for x in xs], ("[{v} % {c} for {v} in values]", "[divmod({v}, {c})[1] for {v} in values]")
    ),
    Family(
        lambda xs, c: [min(x, c) for x in xs],
        ("[min({v}, {c}) for {v} in values]", "[{v} if {v} < {c} else {c} for {v} in values]"),
    ),
)
NAMES = ("x", "item", "each", "number", "value", "n", "entry", "one")


@dataclass(frozen=True)
class Wording:
    """How one approach writes: its own names, its own way, its own words; so rivals differ in every line they write."""

    approach: int
    words: str

    def expression(self, index: int, *, right: bool) -> str:
        """What feature ``index`` returns; if not ``right``, the constant is off by one."""
        way = FAMILIES[index % len(FAMILIES)].ways[self.approach % 2]
        return way.format(v=NAMES[self.approach % len(NAMES)], c=_constant(index) + (not right))


def _constant(index: int) -> int:
    return 2 + index


@dataclass(frozen=True)
class Layout:
    """One of `LAYOUTS` for ``k`` features: the files at the start, and the edits that a mind makes in them."""

    name: str
    k: int

    @property
    def criteria(self) -> tuple[str, ...]:
        """The names of the criteria: one a feature, in order."""
        return tuple(f"f{index:02d}" for index in range(self.k))

    @property
    def rewritten(self) -> bool:
        """Whether a mind writes the module anew before it adds anything."""
        return self.name == "rewrite"

    def registers(self, index: int) -> bool:
        """Whether feature ``index`` needs an entry in the shared list."""
        every = {"registry": 1, "sorted-reg": 1, "half-reg": 2, "quarter-reg": 4}.get(self.name)
        return every is not None and index % every == 0

    def module(self, index: int) -> str:
        """The path of the file that feature ``index`` is in."""
        return "parts/features.py" if self.name in ("one-file-spread", "tight", "rewrite") else f"parts/f{index:02d}.py"

    def test(self, index: int) -> str:
        """The path of the test that is criterion ``index``."""
        return f"tests/test_f{index:02d}.py"

    def start(self) -> dict[str, str]:
        """The files of the first commit: stubs, tests, the empty list."""
        blocks: dict[str, list[str]] = {}
        files = {"parts/__init__.py": "", "conftest.py": ""}
        for index, name in enumerate(self.criteria):
            blocks.setdefault(self.module(index), []).append(self._block(name, "To be written.", STUB))
            files[self.test(index)] = self._test(index, name)
            if self.registers(index):
                files[REGISTRY] = f'"""What is on offer."""\n\nOFFERED = [\n{self._listed_before()}]\n'
        apart = {"one-file-spread": "\n" * 6, "rewrite": "\n\n"}.get(self.name, "")
        files |= {path: apart.join(texts) for path, texts in blocks.items()}
        return files

    def write(self, files: Files, index: int, wording: Wording, *, right: bool) -> dict[str, str]:
        """The files that change when feature ``index`` is written; if not ``right``, with a body that fails its test."""
        name, path = self.criteria[index], self.module(index)
        block = self._block(name, wording.words, f"return {wording.expression(index, right=right)}")
        changed = {path: _blocks(name).sub(lambda _: block, files[path])}
        entry = f'    "{name}",  # {wording.words}\n'
        if right and self.registers(index) and f'"{name}"' not in files[REGISTRY]:
            changed[REGISTRY] = self._listed(files[REGISTRY], entry)
        return changed

    def anew(self, files: Files, words: str, order: Iterable[int]) -> dict[str, str]:
        """The module of layout `rewrite` written anew: what each feature does is kept, the order and the words are not."""
        path = self.module(0)
        texts = []
        for index in order:
            found = _blocks(self.criteria[index]).search(files[path])
            assert found is not None
            texts.append(self._block(self.criteria[index], words, found[0].splitlines()[-1].strip()))
        return {path: "\n\n".join(texts)}

    def _listed_before(self) -> str:
        old = range(1, self.k, 2) if self.name == "sorted-reg" else ()
        return "".join(f'    "{self.criteria[index]}-old",\n' for index in old)

    def _listed(self, text: str, entry: str) -> str:
        head, entries = text.split("[\n", 1)
        lines = [*entries.removesuffix("]\n").splitlines(keepends=True), entry]
        return f"{head}[\n{''.join(sorted(lines) if self.name == 'sorted-reg' else lines)}]\n"

    def _block(self, name: str, words: str, body: str) -> str:
        if self.name == "tight":
            return f"def {name}(values): {body}  # {words}\n"
        return f'def {name}(values):\n    """{words}"""\n    {body}\n'

    def _test(self, index: int, name: str) -> str:
        c = _constant(index)
        values = [c - 1, c, c + 1, 2 * c + 1, 7]
        lines = [f"from {self.module(index)[:-3].replace('/', '.')} import {name}"]
        if self.registers(index):
            lines.append("from parts.registry import OFFERED")
        meaning = FAMILIES[index % len(FAMILIES)].meaning(values, c)
        lines += ["", "", f"def test_{name}():", f"    assert {name}({values}) == {meaning}"]
        if self.registers(index):
            lines.append(f'    assert "{name}" in OFFERED')
        return "\n".join(lines) + "\n"


def _blocks(name: str) -> re.Pattern[str]:
    """A whole function: its first line, and the indented ones after it."""
    return re.compile(rf"^def {name}\(.*\n(?:[ ]+.*\n)*", re.MULTILINE)
