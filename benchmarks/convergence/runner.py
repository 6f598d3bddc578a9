"""Runs the tests of a tree: in this process, out of git and remembered by blob; and for proof by pytest in one of its own."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.convergence.generator import REGISTRY, Layout
from benchmarks.convergence.store import Store
from orchconverge.core.target import Sha

PASSED = re.compile(r"^PASSED tests/test_f(\d+)\.py::", re.MULTILINE)


class Runner:
    """Answers the criteria of trees in one store. Each function of a test file is called, as pytest would."""

    def __init__(self, layout: Layout, store: Store) -> None:
        self._layout = layout
        self._store = store
        self._modules: dict[Sha, SimpleNamespace] = {}
        self._answers: dict[tuple[Sha, ...], bool] = {}
        self._trees: dict[Sha, frozenset[int]] = {}

    def met(self, tree: Sha) -> frozenset[int]:
        """The criteria that hold on a tree, by index."""
        if tree not in self._trees:
            blobs = self._store.blobs(tree)
            self._trees[tree] = frozenset(index for index in range(self._layout.k) if self._holds(index, blobs))
        return self._trees[tree]

    def _holds(self, index: int, blobs: Mapping[str, Sha]) -> bool:
        needs = [self._layout.test(index), self._layout.module(index)]
        needs += [REGISTRY] if self._layout.registers(index) else []
        key = tuple(blobs[path] for path in needs)
        if key not in self._answers:
            self._answers[key] = self._passes({path: blobs[path] for path in needs}, needs[0])
        return self._answers[key]

    def _passes(self, blobs: Mapping[str, Sha], test: str) -> bool:
        """Whether a test file passes; it sees nothing but ``blobs``, so what is remembered depends on nothing else."""

        def imported(name: str, *_: object) -> SimpleNamespace:
            return self._module(blobs[name.replace(".", "/") + ".py"])

        try:
            found = _executed(self._store.text(blobs[test]), imported)
            for name, function in found.items():
                if name.startswith("test_"):
                    function()
        except Exception:
            return False
        return True

    def _module(self, blob: Sha) -> SimpleNamespace:
        if blob not in self._modules:
            self._modules[blob] = SimpleNamespace(**_executed(self._store.text(blob), _nothing))
        return self._modules[blob]


def _nothing(name: str, *_: object) -> SimpleNamespace:
    raise ImportError(name)


def _executed(source: str, imported: Callable[..., SimpleNamespace]) -> dict[str, Any]:
    names: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": imported}}
    exec(compile(source, "<tree>", "exec", dont_inherit=True), names)
    del names["__builtins__"]
    return names


def by_pytest(folder: Path) -> frozenset[int]:
    """The criteria that hold in a checkout, by index: one run of the real pytest in a process of its own."""
    quiet = ["-p", "no:cacheprovider", "-q", "--no-header", "--tb=no", "-rA"]
    argv = [sys.executable, "-B", "-m", "pytest", *quiet, "-c", "/dev/null", "--rootdir", str(folder), "tests"]
    told = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert told.returncode in (0, 1), told.stdout + told.stderr
    return frozenset(int(number) for number in PASSED.findall(told.stdout))
