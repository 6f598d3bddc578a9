"""Folds facts into state, one case a fact. An illegal fact is refused before anything changes."""

from __future__ import annotations

from orchconverge.core.cases import basins, branches, runs
from orchconverge.core.fold import CASES, Fold
from orchconverge.core.state import State

__all__ = ["CASES", "Fold", "State", "basins", "branches", "runs"]
