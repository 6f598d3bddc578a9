"""Says what a run left running: processes that stand in, or were started with, its folder or its tmux socket.

python left.py [--seconds N] WORD...     exit code 1 if something still is there after N seconds
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import psutil


def holders(words: list[str]) -> list[psutil.Process]:
    """Every process but our own family whose directory or command line names one of the words."""
    ours = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        if process.pid in ours:
            continue
        try:
            told = "\0".join([process.cwd(), *process.cmdline()])
        except (psutil.Error, OSError):
            continue
        if any(word in told for word in words):
            found.append(process)
    return found


def main() -> int:
    """Look until nothing is left or the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("words", nargs="+", metavar="WORD")
    told = parser.parse_args()
    until = time.monotonic() + told.seconds
    while (found := holders(told.words)) and time.monotonic() < until:
        time.sleep(0.1)
    for process in found:
        try:
            print(process.pid, " ".join(process.cmdline())[:160])
        except psutil.Error:
            print(process.pid)
    if not found:
        print("nothing: no controller, no mind, no tmux server")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
