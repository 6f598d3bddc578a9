"""Drives a goal to convergence: many disposable agents, one written target, one lock, one ledger."""

__version__ = "0.1.0"
