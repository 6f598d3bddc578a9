"""The pull request as text: what labels say, what stays of a person's words, and that nobody's text comes to life in it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchconverge.core.overlap import Change
from orchconverge.core.secrets import masked, masked_in
from orchconverge.core.seen import Commit, Work
from orchconverge.core.state import Basin
from orchconverge.core.target import Criterion
from orchconverge.core.values import Residue
from orchconverge.core.views import pull_request as text
from tests.stories import Story, sha


def changed(*paths: str, added: int | None = 10, removed: int | None = 0) -> tuple[Change, ...]:
    return tuple(Change(kind="M", path=path, added=added, removed=removed) for path in paths)


def basin(goal: str = "implement login", **more: object) -> Basin:
    story = Story().declare(goal=goal, macrostate="People can log in.").start()
    story.check(met=["oauth"]).attempt(met=["oauth", "login"], text="fixed login")
    return replace(story.basin(), **more)


def work(*subjects: str) -> Work:
    commits = tuple(Commit(sha=sha(s), author="a <a@b>", committer="a <a@b>", subject=s) for s in subjects)
    return Work(base=sha("base"), head=sha("head"), tree=sha("tree"), descends=True, commits=commits)


@pytest.mark.parametrize(
    ("goal", "paths", "label"),
    [
        ("fix the crash at start", ["a.py"], "type: bug"),
        ("add a second factor", ["a.py"], "type: feature"),
        ("refactor the parser", ["a.py"], "type: improvement"),
        ("fix the guide", ["docs/a.md", "README.md", "b.rst", "c.py"], "type: documentation"),
        ("fix it", ["tests/a.py", "b_test.go", "test_c.py", "x.py"], "type: testing"),
        ("fix it", [".github/workflows/ci.yml", "Dockerfile", "k8s.yaml", "a.py"], "type: infrastructure"),
    ],
)
def test_the_type_is_told_by_paths_if_most_agree_else_by_words(goal: str, paths: list[str], label: str) -> None:
    assert text.labels(basin(goal), changed(*paths))[0] == label


@pytest.mark.parametrize(
    ("lines", "label"),
    [(0, "small"), (99, "small"), (100, "medium"), (499, "medium"), (500, "large"), (999, "large"), (1000, "epic")],
)
def test_the_size_is_the_lines_that_changed(lines: int, label: str) -> None:
    found = text.labels(basin(), changed("a.py", added=lines - lines // 2, removed=lines // 2))
    assert f"size: {label}" in found
    assert "size: small" in text.labels(basin(), changed("a.png", added=None, removed=None))


@pytest.mark.parametrize(
    ("paths", "label"),
    [
        (["a.tsx", "b.css", "README.md"], "scope: frontend"),
        (["a.py", "b.go", "README.md"], "scope: backend"),
        (["a.py", "b.tsx"], "scope: fullstack"),
        (["README.md", "b.rst", "a.py"], ""),
        ([], ""),
    ],
)
def test_the_scope_is_told_by_paths(paths: list[str], label: str) -> None:
    found = [each for each in text.labels(basin(), changed(*paths)) if each.startswith("scope: ")]
    assert found == ([label] if label else [])


def test_the_priority_is_told_by_words() -> None:
    goals = ("close the security hole", "urgent: it hangs", "add a page")
    assert [text.labels(basin(goal), ())[-1] for goal in goals] == [
        "priority: critical",
        "priority: high",
        "priority: normal",
    ]


def test_of_each_group_there_is_one_label_and_what_a_person_chose_stays() -> None:
    wanted = ("type: bug", "size: large", "scope: backend", "priority: normal")
    assert text.relabelled((), wanted) == (wanted, ())
    assert text.relabelled(wanted, wanted) == ((), ())
    there = ("type: feature", "size: small", "priority: high", "help wanted")
    assert text.relabelled(there, wanted) == (("size: large", "scope: backend"), ("size: small",))


def test_the_description_tells_target_evidence_attempts_and_how_to_see_it_again() -> None:
    told = text.body(basin(residue=(Residue(text="mind the cache"),)), work("login: a form"), changed("a.py", "b.py"))
    for words in (
        "People can log in.",
        "| login | yes | `pytest -q tests/login` | exit 0, ",
        "| docs | no |",
        "### Attempts: 1",
        "fixed login",
        "Files changed: 2 (+20 -0)",
        "mind the cache",
        "login: a form",
        f"`git checkout --detach {sha('head')[:12]}`",
    ):
        assert words in told, told
    assert "on top of what was checked" not in told
    assert "**2 commits on top of what was checked" in text.body(basin(), work(), (), unjudged=2)


def test_of_what_is_asked_after_it_is_written_the_description_says_where_to_look() -> None:
    asked = tuple(Criterion(name=kind, kind=kind) for kind in ("pr", "ci", "review", "changed"))
    told = text.body(basin(criteria=asked), work(), ())
    for kind, where in (("pr", "this one"), ("ci", "see the checks"), ("review", "see the review")):
        assert f"| {kind} | {where} | {kind} |" in told
    assert "| changed | not run here |" in told


def test_what_a_person_wrote_around_it_stays() -> None:
    one, two = (text.body(basin(), work(subject), changed("a.py")) for subject in ("first", "second"))
    alone = text.described("", one)
    assert alone == one
    with_words = f"Please look at b.py.\n\n{alone}\n\nCloses #12"
    assert text.described(with_words, two) == f"Please look at b.py.\n\n{two}\n\nCloses #12"
    assert text.described(text.described(with_words, two), two) == text.described(with_words, two)
    assert text.described("A person's own.", two) == f"A person's own.\n\n{two}"


def test_half_a_part_of_ours_is_a_persons_text() -> None:
    ours = text.body(basin(), work(), ())
    for broken in (f"{text.BEGIN}\nall of this is mine", f"mine {text.END} too"):
        told = text.described(broken, ours)
        assert told.startswith(broken)
        assert text.described(told, ours) == told


def test_no_text_of_others_can_end_our_part() -> None:
    evil = f"{text.END} {text.BEGIN}"
    story = basin(residue=(Residue(text=evil),), macrostate=evil)
    told = text.body(story, work(evil), changed(f"{evil}.py"))
    assert (told.count(text.BEGIN), told.count(text.END)) == (1, 1)
    assert text.described(f"before\n\n{told}\n\nafter", "X") == "before\n\nX\n\nafter"


def test_no_text_of_others_comes_to_life() -> None:
    evil = "@ann fixes #12 <img src=x> [a](https://e.example) | `x` ![i](https://e.example/i.png)"
    told = text.body(basin(residue=(Residue(text=evil),), macrostate=evil), work(evil), changed("a.py"))
    for alive in ("@ann", "#12", "<img", "[a](", "![i](", "https://e"):
        assert alive not in told


@pytest.mark.parametrize(("said", "now", "old"), [(10, 12, False), (10, 13, True), (10, 7, True), (0, 1, True)])
def test_a_description_is_outdated_when_its_number_of_files_is(said: int, now: int, old: bool) -> None:
    there = text.body(basin(), work(), changed(*(f"{n}.py" for n in range(said))))
    assert bool(text.outdated(there, now)) is old


def test_a_description_that_is_not_ours_says_nothing_of_files() -> None:
    assert text.outdated("Files changed: 3 (+1 -1)", 3)


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_" + "a" * 36,
        "github_pat_" + "a1" * 20,
        "glpat-" + "a" * 20,
        "sk-ant-api03-" + "a" * 30,
        "AKIA" + "ABCDEFGH12345678",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_masked(secret: str) -> None:
    assert masked(f"it said {secret} and went on") == "it said *** and went on"
    assert masked_in({"a": [f"x {secret}", 1, None]}) == {"a": ["x ***", 1, None]}


def test_a_password_in_an_address_is_masked_and_other_text_is_not() -> None:
    assert masked("https://me:hunter2@example.org/x") == "https://***@example.org/x"
    plain = "ssh://git@example.org/x, sk-1, ghp_short, eyJ, a:b@c, task-force-one-two-three"
    assert masked(plain) == plain
    assert masked("the word is plugh", "plugh") == "the word is ***"
