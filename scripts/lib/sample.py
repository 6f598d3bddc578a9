"""Makes what the demo converges: a small repository with failing tests, a bare remote beside it, and a script of minds.

python sample.py FOLDER     makes FOLDER/till, FOLDER/remote.git and FOLDER/minds.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PRICES = '''"""Reads prices."""


def parse(text: str) -> int:
    """Cents of a price such as "12.50"."""
    raise NotImplementedError
'''
PRICES_DONE = PRICES.replace(
    "    raise NotImplementedError\n",
    """    whole, _, cents = text.strip().partition(".")
    if not whole.isdigit() or (cents and not (cents.isdigit() and len(cents) == 2)):
        raise ValueError(f"not a price: {text!r}")
    return int(whole) * 100 + int(cents or 0)
""",
)

BASKET = '''"""Adds up a basket; all amounts are cents."""

Lines = list[tuple[str, int, int]]


def total(lines: Lines) -> int:
    """The sum of count times price over (name, count, price)."""
    raise NotImplementedError


def reduced(cents: int, percent: int) -> int:
    """The amount less ``percent``; half a cent counts for the buyer."""
    raise NotImplementedError
'''
BASKET_TOTAL = BASKET.replace(
    "    raise NotImplementedError\n", "    return sum(count * price for _, count, price in lines)\n", 1
)
REDUCED = "    return cents - (cents * percent + 50) // 100\n"
BASKET_DONE = BASKET_TOTAL.replace("    raise NotImplementedError\n", REDUCED)
# The discount is right, and the sum that held before is lost: the count is no longer looked at.
BASKET_LOSES = BASKET_DONE.replace("sum(count * price for _, count, price in lines)", "sum(line[2] for line in lines)")

RECEIPT = '''"""Prints receipts."""

from till.basket import Lines


def receipt(lines: Lines) -> str:
    """A line for each item and one for the sum, amounts aligned at column 20."""
    raise NotImplementedError
'''
RECEIPT_DONE = RECEIPT.replace("import Lines", "import Lines, total").replace(
    "    raise NotImplementedError\n",
    """    rows = [(f"{count} {name}", count * price) for name, count, price in lines] + [("total", total(lines))]
    return "\\n".join(f"{what:<12}{cents / 100:8.2f}" for what, cents in rows)
""",
)

TESTS = {
    "parse": """from till.prices import parse


class Parse(unittest.TestCase):
    def test_cents_are_read(self):
        self.assertEqual((parse("12.50"), parse("3"), parse(" 0.05 ")), (1250, 300, 5))

    def test_what_is_no_price_is_refused(self):
        for text in ("", "1.5", "-1", "1,50", "a.bc"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse(text)
""",
    "total": """from till.basket import total


class Total(unittest.TestCase):
    def test_counts_are_multiplied(self):
        self.assertEqual(total([("tea", 2, 250), ("bun", 3, 120)]), 860)

    def test_nothing_costs_nothing(self):
        self.assertEqual(total([]), 0)
""",
    "discount": """from till.basket import reduced


class Discount(unittest.TestCase):
    def test_half_a_cent_counts_for_the_buyer(self):
        self.assertEqual((reduced(1000, 10), reduced(1005, 10), reduced(99, 0)), (900, 904, 99))
""",
    "receipt": """from till.receipt import receipt


class Receipt(unittest.TestCase):
    def test_amounts_are_aligned(self):
        wanted = "2 tea           5.00\\n3 bun           3.60\\ntotal           8.60"
        self.assertEqual(receipt([("tea", 2, 250), ("bun", 3, 120)]), wanted)
""",
}

FILES = {
    "README.md": "# till\n\nA small till. Its tests say what is missing: `python3 -m unittest`.\n",
    ".gitignore": "__pycache__/\n",
    "till/__init__.py": '"""A small till."""\n',
    "till/prices.py": PRICES,
    "till/basket.py": BASKET,
    "till/receipt.py": RECEIPT,
    "tests/__init__.py": "",
    **{f"tests/test_{name}.py": f"import unittest\n\n{text}" for name, text in TESTS.items()},
}


def part(path: str, text: str, subject: str, criterion: str) -> list[dict[str, object]]:
    """The acts of one commit that is meant for one criterion."""
    message = f"{subject}\n\nCriterion: {criterion}"
    return [{"write": {"path": path, "text": text}}, {"sleep": 1}, {"commit": message}]


def mind(attempt: int, summary: str, *commits: list[dict[str, object]]) -> dict[str, object]:
    """The mind of one attempt."""
    acts: list[dict[str, object]] = [{"say": "reading the failing tests"}, {"sleep": 1}]
    for each in commits:
        acts += each
    usage = {"inputTokens": 9000 * attempt, "outputTokens": 700 * attempt, "usd": 0.04 * attempt}
    report = {"summary": summary, "verdict": None, "residue": [], "frontier": []}
    return {"match": {"attempt": attempt}, "acts": [*acts, {"usage": usage}, {"report": report}, {"say": summary}]}


SCRIPT = {
    "minds": [
        mind(
            1,
            "prices are read and baskets added up",
            part("till/prices.py", PRICES_DONE, "prices: read them", "parse"),
            part("till/basket.py", BASKET_TOTAL, "basket: add it up", "total"),
        ),
        mind(
            2,
            "the discount is done, everything passes",  # it does not, and nobody takes its word for it
            part("till/basket.py", BASKET_LOSES, "basket: reduce it", "discount"),
        ),
        mind(
            3,
            "discount and receipt are done",
            part("till/basket.py", BASKET_DONE, "basket: reduce it", "discount"),
            part("till/receipt.py", RECEIPT_DONE, "receipt: print it", "receipt"),
        ),
    ]
}


def git(folder: Path, *words: str) -> None:
    """Run git there; its failure ends us."""
    subprocess.run(["git", *words], cwd=folder, check=True)


def make(folder: Path) -> None:
    """Make the three of them. Raises `FileExistsError` if one is there."""
    till, remote = folder / "till", folder / "remote.git"
    remote.mkdir(parents=True)
    git(remote, "init", "--quiet", "--bare", "--initial-branch", "main")
    for name, text in FILES.items():
        path = till / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(till, "init", "--quiet", "--initial-branch", "main")
    git(till, "config", "user.name", "A Person")
    git(till, "config", "user.email", "person@example.org")
    git(till, "add", "--all")
    git(till, "commit", "--quiet", "--message", "A till whose tests fail")
    git(till, "remote", "add", "origin", str(remote))
    git(till, "push", "--quiet", "--set-upstream", "origin", "main")
    git(till, "remote", "set-head", "origin", "main")
    (folder / "minds.json").write_text(json.dumps(SCRIPT, indent=1), encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
