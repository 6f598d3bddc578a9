"""How shell blocks are read: what is typed, what must come of it, and that another outcome is seen."""

from __future__ import annotations

import pytest

from tests.docs.blocks import Step, blocks, matches, steps

PAGE = """\
# A page

```sh
# a remark
cd somewhere   # exit code 1: it is not there
cat > file <<'END'
if this were a command
END
for each in a b; do
  echo $each
done && \\
  echo over
```

```console
$ echo one \\
>   two
one …
$ true

```

```text
$ not typed
```
"""


def test_every_command_is_typed_whole() -> None:
    found = list(steps(PAGE))
    assert found[0] == Step(5, "cd somewhere", 1, None)
    assert found[1] == Step(6, "cat > file <<'END'\nif this were a command\nEND", 0, None)
    assert found[2] == Step(9, "for each in a b; do\n  echo $each\ndone && \\\n  echo over", 0, None)
    assert found[3] == Step(16, "echo one \\\n  two", 0, ("one …",))
    assert found[4] == Step(19, "true", 0, ())
    assert len(found) == 5


def test_a_block_that_does_not_end_is_an_error() -> None:
    with pytest.raises(AssertionError, match="line 3 does not end"):
        list(blocks("a\n\n```sh\necho\n"))
    with pytest.raises(AssertionError, match="does not end"):
        list(steps("```sh\nif true; then\n```\n"))


@pytest.mark.parametrize(
    ("wanted", "printed", "fits"),
    [
        (["a"], "a\n", True),
        (["a"], "b\n", False),
        (["a"], "a\nb\n", False),
        (["a", "b"], "a\n", False),
        (["a … c"], "a b c\n", True),
        (["a", "…", "c"], "a\nb\nb\nc\n", True),
        (["a", "…", "c"], "a\nc\n", True),
        (["…", "c"], "a\nd\n", False),
        (["a."], "ab\n", False),
        ([], "", True),
        ([], "a\n", False),
    ],
)
def test_what_is_printed_is_compared(wanted: list[str], printed: str, fits: bool) -> None:
    assert matches(wanted, printed) is fits
