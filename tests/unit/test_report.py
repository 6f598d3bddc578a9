"""The report: complete without its charts, and safe with what minds and repositories wrote in it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import timedelta, timezone
from html.parser import HTMLParser

import msgspec
import pytest
from msgspec.structs import replace

from orchconverge.cli.chain import report as cli_report
from orchconverge.core import events as e
from orchconverge.core.report_record import PullReported, Report
from orchconverge.core.reporting import reported
from orchconverge.core.seen import Commit
from orchconverge.core.target import Criterion
from orchconverge.core.values import StepStatus
from orchconverge.core.views.document import Grafts, Paragraph, Progress, Timeline
from orchconverge.core.views.markdown import Paths, code, link, prose
from orchconverge.core.views.report import document, markdown, report
from orchconverge.core.views.report_charts import BARS, label
from orchconverge.core.views.report_html import html
from tests import tellings
from tests.stories import CHECKOUT, Story, check, sha
from tests.tellings import MET

ROOTS = "/" + "root"
HOSTILE = (
    "| a | b |\n|---|---|\n<script>alert(1)</script> @octocat #1 [x](http://evil.example) ![i](javascript:x) `c` "
    "https://evil.example www.evil.example GH-7 $E=mc^2$ **b** _i_ ~~s~~ \\| \x1b[31mred\u202etxet\u200b &lt; ```"
)


def told(story: Story, basin: str = "auth", **more: object) -> str:
    return report(story.state, basin, now=story.now, seq_from=1, seq_to=story.seq, bad=0, **more)


def section(text: str, title: str) -> str:
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_what_was_asked_for_is_all_there() -> None:
    text = told(tellings.converged(), "mfa", facts=tellings.converged().facts)
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "Criteria",
        "How it converged",
        "Implementation timeline",
        "Decisions",
        "What was learned",
        "Commands and their effect",
        "Usage and cost",
        "How to reproduce",
        "What this report rests on",
    ]
    assert text.startswith("# mfa: converged\n")
    assert "SUCCESS: 7 of 7 required criteria met (100%)" in text
    assert "| **Attempts** | 3 of 10 |" in text
    assert "| **Active time** | 1h 34m of 3h 00m |" in text
    assert "merge [#221](https://example.org/shop/pull/221); answer 1 open question" in text
    assert "Ledger lines 1 to 45, 0 bad." in text


def test_reasons_stand_as_they_were_written_with_who_decided() -> None:
    story = tellings.converged()
    text = section(told(story, "mfa", facts=story.facts), "Decisions")
    assert "| prune | mfa.3 | auto: covered | covered by .2 but for its malformed-input tests |" in text
    assert "| part taken | mfa.3 | person: ana, tty | its malformed-input tests are stricter than the winner's;" in text
    assert "person: ana" not in told(story, "mfa")  # without the facts the fold has kept no decider
    assert "| prune | mfa.3 |  | covered by .2" in told(story, "mfa")


def test_every_chart_has_its_sentence() -> None:
    text = section(told(tellings.converged(), "mfa"), "How it converged")
    assert text.count("```mermaid") == 3
    assert "2 candidates from worktrees: mfa.2 was grafted; mfa.3 was pruned." in text  # what the fold kept
    whole = told(tellings.converged(), "mfa", facts=tellings.converged().facts)
    assert '    branch "mfa.2"\n    commit id: "mfa.2 library-first 6/7"\n    checkout target\n' in whole
    assert '    merge "mfa.2" id: "graft mfa.2"\n    commit id: "part of mfa.3" type: HIGHLIGHT\n' in whole
    assert "2 candidates from worktrees: mfa.2 (6/7) was grafted; mfa.3 (4/7) gave a part." in whole
    assert "From 2 to 7 of 7 required criteria, the line in the chart: attempt 2 gained 4; attempt 3 gained 1;" in text
    assert "3 spans of work" in text
    assert "3.2 an hour of active time" in text


@pytest.mark.parametrize("story", [Story().declare(), Story().declare().start(), Story().declare().start().check()])
def test_nothing_is_drawn_of_less_than_two_points(story: Story) -> None:
    assert "```" not in told(story)


def test_charts_are_capped_and_say_so() -> None:
    story = Story().declare(attempts=100, hours=None).start(attempts=100, hours=None, stallAfter=99).check(met=MET[:2])
    for _ in range(BARS + 5):
        story.attempt(met=MET[:2], result="no_progress", seconds=10.0)
    text = told(story)
    bars = next(line for line in text.splitlines() if line.strip().startswith("bar ["))
    assert len(bars.split(",")) == BARS
    assert text.count(" :done, ") == BARS
    assert f"The chart shows the last {BARS} of {BARS + 6} points." in text
    assert f"The chart shows the last {BARS} of {BARS + 5} bars." in text


def test_labels_hold_nothing_that_a_chart_would_read() -> None:
    assert label('a: b; c # d "e" [f] {g} <h> `i` %%j') == "a b c d e f g h i j"
    assert label("\x1b[31m\n") == "unnamed"


def test_a_run_that_is_not_over_is_not_called_a_success() -> None:
    for telling, word in (
        (tellings.running, "under way"),
        (tellings.limited, "attempt limit reached"),
        (tellings.stalled, "stalled"),
        (tellings.blocked, "waits for a person"),
        (tellings.stopped, "stopped"),
        (tellings.killed, "killed"),
        (tellings.finalizing, "all required criteria met"),
    ):
        assert told(telling()).splitlines()[0] == f"# auth: {word}"
    assert told(Story().declare()).startswith("# auth: declared, never opened\n")


def test_what_stood_in_the_way_is_named() -> None:
    text = section(told(tellings.blocked()), "What was learned")
    assert "- Attempt 1: verdict: no sandbox key in the environment" in text


def test_steps_that_were_skipped_say_why() -> None:
    story = tellings.finalizing()
    story.tell(e.StepEnded(basin="auth", round=1, step="reviewdeep", status="skipped", detail="no engine can review"))
    text = told(story)
    assert "| **Review** | skipped: no engine can review |" in text
    assert "| `/reviewdeep` | 1 |  | skipped: no engine can review |" in text


def test_commits_are_listed() -> None:
    commit = Commit(sha=sha("c"), author="a", committer="c", subject="add | a factor", criteria=("enrol",))
    text = section(told(tellings.converged(), "mfa", commits=[commit]), "Implementation timeline")
    assert f"1 commit on the target:\n\n- `{sha('c')[:7]}` add \\| a factor (`enrol`)" in text


def test_times_are_the_readers() -> None:
    story = tellings.converged()
    east = story.now.astimezone(timezone(timedelta(hours=9)))
    text = report(story.state, "mfa", now=east, seq_from=1, seq_to=2, bad=0)
    assert "Times are UTC+0900, written 2026-11-30 01:29." in text
    assert "2026-11-29 23:00:00, 1860s" in text


# --- what others wrote -----------------------------------------------------------------------------------------------


def hostile() -> Story:
    """A run in which everything that can be text is hostile."""
    bad = HOSTILE
    story = Story()
    criteria = (check("oauth", command=f"sh -c '{bad}'"), Criterion(name="judged", kind="judge", text=bad))
    story.declare(goal=bad, macrostate=f"- {bad}", criteria=criteria, target="a|b").start()
    story.check(met=()).attempt(
        met=(), result="no_progress", text=bad, failure=bad, verdict=bad, approach=bad, engine=bad
    )
    story.begin().wait(60.0, basin="auth").ended("auth.2").candidate(
        "auth.2", met=("oauth",), residue=(bad,), flags=(bad,)
    )
    story.tell(e.GraftRefused(basin="auth", branch="auth.2", tip=sha("t"), conflicts=(bad,), why=bad))
    story.tell(e.BranchPruned(basin="auth", branch="auth.2", reason=bad, decidedBy=f"person: {bad}"))
    story.tell(e.FrontierAdded(question=bad, origin=bad, basin="auth", blocks=bad))
    story.judge(result="no_progress", text=bad)
    story.park("branch", bad).wait(60.0).woke()
    story.step("pushl", bad, url="https://evil.example/)](javascript:alert(1)) | x")
    said = {"path": bad, "line": 3, "severity": bad, "title": bad}
    answered = {
        **said,
        "author": bad,
        "url": f"https://evil.example/{bad}",
        "outcome": bad,
        "reason": bad,
        "commit": bad,
    }
    for name, found in (("reviewdeep", said), ("copilot", answered)):
        number = story.basin().chain.round
        story.tell(e.StepStarted(basin="auth", round=number, step=name, argv=(bad,)))
        story.tell(
            e.StepEnded(basin="auth", round=number, step=name, status="failed", detail=bad, findings=(found,), url=bad)
        )
    return story.step("report", bad).stop("stalled", bad)


def test_text_of_others_stays_text() -> None:
    story = hostile()
    commits = [Commit(sha=sha("c"), author=HOSTILE, committer=HOSTILE, subject=HOSTILE, criteria=(HOSTILE,))]
    text = told(story, facts=story.facts, commits=commits)
    outside = strip_code(text)
    for found in ("<script", "@octocat", "#1 ", "http://", "https://e", "www.evil", "GH-7"):
        assert found not in outside
    assert not re.search(r"(?<!\\)\]\(", outside)
    for char in "\x1b\u202e\u200b":
        assert char not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    widths = {}
    for row in rows:
        widths.setdefault(bars(row), []).append(row)
    assert set(widths) <= {3, 4, 5, 6, 7, 9}  # the summary and the tables, no row of any other width
    assert text.count("\n# ") == 0
    assert text.count("```") == 4


def strip_code(text: str) -> str:
    """The text without fenced blocks and code spans."""
    out, rest = [], text
    while "`" in rest:
        before, _, rest = rest.partition("`")
        if before.endswith("\\") and not before.endswith("\\\\"):
            out.append(before)
            continue
        fence = "`"
        while rest.startswith("`"):
            fence, rest = fence + "`", rest[1:]
        out.append(before)
        _, _, rest = rest.partition(fence)
    return "".join([*out, rest])


def bars(row: str) -> int:
    """How many bars of a row delimit cells, as GitHub counts them: those that no backslash escapes."""
    count, at = 0, 0
    while at < len(row):
        at += 2 if row[at] == "\\" else 1
        count += at <= len(row) and row[at - 1] == "|" and (at < 2 or row[at - 2] != "\\")
    return count


def test_no_path_of_this_machine_is_in_it() -> None:
    story = Story().declare(goal=f"fix {CHECKOUT}/src/a.py").start(checkout=CHECKOUT).check()
    tree = "/home/somebody/.local/share/orchconverge/shop-0a/trees/m-1f"
    story.attempt(met=(), result="no_progress", text=f"wrote {tree}/src/b.py", failure=f"in {tree}", worktree=tree)
    story.tell(
        e.FrontierAdded(question=f"why {CHECKOUT}? see /home/person/x and {ROOTS}/y", origin="auth.1", basin="auth")
    )
    text = told(story, facts=story.facts)
    for found in ("/home/", "somebody", "/trees/", "m-1f", ROOTS, "person", CHECKOUT):
        assert found not in text
    assert "fix src/a.py" in text
    assert "wrote src/b.py" in text
    assert "see \\~/x and \\~/y" in text


def test_paths_are_taken_out_whole_or_not_at_all() -> None:
    paths = Paths(["/srv/shop", "/srv/shop/trees/a"])
    assert paths.out_of("/srv/shop/src and /srv/shopping/x") == "src and /srv/shopping/x"
    assert paths.out_of("in /srv/shop/trees/a: done in '/srv/shop'") == "in .: done in '.'"
    assert Paths(["/", ""]).out_of("/etc/hosts") == "/etc/hosts"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, 3 of 7.", "plain words, 3 of 7."),
        ("a|b", "a\\|b"),
        ("a\\|b", "a\\\\\\|b"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("- item", "\\- item"),
        ("1. item", "&#8203;1. item"),
        ("# head", "\\# head"),
        ("@me and a@b.c", "@&#8203;me and a@&#8203;b.c"),
        ("see #12", "see #&#8203;12"),
        ("http://x", "http:&#8203;//x"),
        ("WWW.x", "WWW&#8203;.x"),
        ("mailto:x", "mailto&#8203;:x"),
    ],
)
def test_prose_escapes_what_a_forge_would_act_on(text: str, shown: str) -> None:
    assert prose(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("pytest -q", "`pytest -q`"),
        ("a `b` c", "``a `b` c``"),
        ("`", "`` ` ``"),
        ("a | b", "<code>a &#124; b</code>"),
        ("a \\| <b>", "<code>a \\\\&#124; &lt;b&gt;</code>"),
    ],
)
def test_code_cannot_be_ended_from_inside(text: str, shown: str) -> None:
    assert code(text) == shown


def test_only_plain_addresses_become_links() -> None:
    assert link("https://example.org/a/pull/7#x", "#7") == "[#7](https://example.org/a/pull/7#x)"
    for url in ("javascript:alert(1)", "https://x/)](y", "https://u@x/", "https://x/ y", "http://x/?q=<b>"):
        assert "](" not in link(url, "#7").replace("`", "").split(" ")[0]
        assert link(url, "#7").startswith("#7 `")


def test_conditions_are_not_gained_and_short_runs_have_no_rate() -> None:
    criteria = (check("oauth"), Criterion(name="changed", kind="changed"))
    story = Story().declare(criteria=criteria).start().check()
    story.attempt(met=["oauth", "changed"], result="success", text="fixed oauth", decision="SUCCESS", seconds=30.0)
    text = told(story)
    assert re.search(r"^\| changed \| not met \| \*\*met\*\* \|  \|", text, re.MULTILINE)
    assert "1 criterion gained in 1 attempt and 30s." in text
    assert "an hour" not in text


def test_what_was_learned_twice_is_told_once() -> None:
    story = Story().declare().start().check().begin(minds=2).wait(60.0)
    for branch in ("auth.1", "auth.2"):
        story.ended(branch).candidate(branch, met=["oauth"], residue=["parsing belongs in one place"])
    assert told(story.judge(met=["oauth"])).count("parsing belongs in one place") == 1


def test_a_result_that_a_person_took_is_a_decision() -> None:
    story = Story().declare().start().check().attempt(met=["oauth"]).stop("waiting")
    story.tell(e.BasinAmended(basin="auth", why="accepted: flagged CI"), writer="cli")
    assert "| taken as it is |  | person | accepted: flagged CI |" in told(story, facts=story.facts)


def test_where_the_record_of_a_pull_request_lies_is_said() -> None:
    story = Story().declare().start().check().attempt(met=["oauth"])
    story.step("pushl", "the pull request record is pr/auth.json")
    assert "`pr/auth.json` lies in the state directory" in told(story)


# --- what the forge said ---------------------------------------------------------------------------------------------


def requested() -> Story:
    """A run whose review found two things, and on whose pull request two comments were answered."""
    criteria = (check("oauth"), Criterion(name="review", kind="review"), Criterion(name="ci", kind="ci"))
    story = (
        Story().declare(criteria=criteria).start().check().attempt(met=["oauth"], result="success", decision="SUCCESS")
    )
    story.step("pushl", "pushed", url="https://example.org/shop/pull/7")
    finding = {"path": "src/a.py", "line": 4, "severity": "critical", "title": "the token is logged", "score": 90}
    comment = {
        "id": "inline.1",
        "path": "src/b.py",
        "line": 9,
        "author": "ann",
        "url": "https://example.org/shop/pull/7#d1",
    }
    fixed = {
        **comment,
        "severity": "important",
        "outcome": "already_there",
        "reason": "line 9 has it",
        "commit": sha("f"),
    }
    stranger = {**comment, "url": "", "severity": "", "outcome": "not heard", "reason": "no member"}
    stopped = "2 comments; stopped after 1 round: nothing new was said"
    for name, findings, detail in (("reviewdeep", (finding,), "REWORK"), ("copilot", (fixed, stranger), stopped)):
        story.tell(e.StepStarted(basin="auth", round=1, step=name, argv=(name,)))
        answer = story.answers("auth", ["review"], "t") if name == "copilot" else ()
        results = tuple(replace(each, criterion="review", met="no", excerpt="src/a.py:4") for each in answer)
        story.tell(
            e.StepEnded(
                basin="auth", round=1, step=name, status="done", detail=detail, findings=findings, results=results
            )
        )
    return story


def test_findings_and_what_became_of_each_comment_are_listed_with_the_brake() -> None:
    story = requested()
    text = section(told(story, facts=story.facts), "Pull request and review")
    assert "**Findings of the review**: 1 critical." in text
    assert "| critical | `src/a.py:4` | the token is logged | stands |" in text
    assert "**Comments and checks**: 1 already there, 1 not heard. Stopped after 1 round: nothing new was said." in text
    link = "[there](https://example.org/shop/pull/7#d1) `src/b.py:9`"
    assert f"| {link} | ann | important | already there | `{sha('f')[:7]}` | line 9 has it |" in text
    assert "| `src/b.py:9` | ann |  | not heard |  | no member |" in text
    assert "\n## Pull request and review\n" not in told(tellings.converged(), "mfa")


@pytest.mark.parametrize(("status", "now"), [("done", "gone"), ("failed", "stands")])
def test_a_finding_that_opened_one_more_attempt_is_told_with_whether_it_is_gone(status: StepStatus, now: str) -> None:
    story = requested()
    story.attempt(met=MET[:2], text="put right")
    for name in ("pushl", "reviewdeep"):
        story.tell(e.StepStarted(basin="auth", round=2, step=name, argv=(name,)))
        story.tell(e.StepEnded(basin="auth", round=2, step=name, status=status, detail="said"))
    text = section(told(story, facts=story.facts), "Pull request and review")
    assert f"| critical | `src/a.py:4` | the token is logged | {now} |" in text


def test_how_the_pull_request_stood_is_said_with_its_checks() -> None:
    told_by = record(requested())
    pull = PullReported(number=7, url="u", state="open", draft=False, passed=3, failed=0, pending=1)
    link = "[#7](https://example.org/shop/pull/7)"
    row = f"| **Pull request** | open, 3 checks passed, 1 check pending: {link}, pushed |"
    assert row in markdown(replace(told_by, pull_request=pull))
    merged = replace(pull, state="merged", passed=0, pending=0)
    assert "| merged, no checks: " in markdown(replace(told_by, pull_request=merged))
    assert f"| **Pull request** | {link}, pushed |" in markdown(told_by)


def test_what_the_chain_answered_is_in_the_table_of_criteria() -> None:
    text = told(requested(), facts=requested().facts)
    assert "| review |  | not met |  | review (final steps) |  |" in text
    assert "| ci |  | not run |  | ci (final steps) |  |" in text


def test_what_a_person_typed_is_told_with_what_it_led_to() -> None:
    story = tellings.at_lock()
    story.tell(e.BranchPruned(basin="auth", branch="auth.2", reason="too wide", decidedBy="person: ana"), writer="cli")
    story.tell(e.RunStopRequested(basin="auth"), writer="cli") if story.basin().running else None
    story.tell(e.BasinAmended(basin="auth", why="one more", criteria=(check("oauth"),)), writer="cli").start()
    text = section(told(story, facts=story.facts), "Commands and their effect")
    assert "| `orchconverge prune` | 1 |  | 1 candidate turned down |" in text
    assert "| `orchconverge amend` | 1 |  | the target was changed |" in text
    assert "| `orchconverge resume` | 1 |  | the pursuit went on |" in text


def test_a_step_that_a_persons_own_command_replaced_says_so() -> None:
    story = Story().declare().start(replaced={"pushl": ("my-push", "--fast | x")}).check().attempt(met=["oauth"])
    story.step("pushl", "pushed by hand")
    text = told(story, facts=story.facts)
    assert "| `/pushl`, replaced by <code>my-push --fast &#124; x</code> | 1 | 9s | pushed by hand |" in text


# --- the other formats -----------------------------------------------------------------------------------------------


def record(story: Story, basin: str = "auth") -> Report:
    return reported(story.state, basin, now=story.now, seq_from=1, seq_to=story.seq, bad=0, facts=story.facts)


def keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def test_every_key_of_the_json_is_in_the_help_and_none_ever_vanishes() -> None:
    told_by_help = set(re.findall(r"\w+", cli_report.help or ""))
    wholes = [msgspec.to_builtins(record(story)) for story in (requested(), hostile(), tellings.at_lock())]
    wholes.append(msgspec.to_builtins(record(tellings.converged(), "mfa")))
    pull = PullReported(number=7, url="u", state="open", draft=False, passed=3, failed=0, pending=1)
    wholes.append(msgspec.to_builtins(replace(record(requested()), pull_request=pull)))
    assert {key for whole in wholes for key in keys(whole)} <= told_by_help
    assert len({frozenset(whole) for whole in [*wholes, msgspec.to_builtins(record(Story().declare()))]}) == 1


class Page(HTMLParser):
    """What a page is made of. A tag that is not closed where it was opened is a fault."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)


@pytest.mark.parametrize(
    ("story", "basin"),
    [(tellings.converged(), "mfa"), (hostile(), "auth"), (requested(), "auth"), (Story().declare(), "auth")],
    ids=["converged", "hostile", "requested", "declared"],
)
def test_a_page_stands_alone_and_runs_nothing(story: Story, basin: str) -> None:
    text = html(record(story, basin))
    found = Page(text)
    assert found.open == []
    names = [tag for tag, _ in found.tags]
    assert not {"script", "img", "iframe", "link", "form", "object", "base"} & set(names)
    for _, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "xlink:href")]
    ids = {attributes["id"] for _, attributes in found.tags if "id" in attributes}
    links = [attributes["href"] or "" for tag, attributes in found.tags if tag == "a"]
    assert all(link[1:] in ids if link.startswith("#") else link.startswith("https://example.org/") for link in links)
    [policy] = [a["content"] or "" for tag, a in found.tags if a.get("http-equiv") == "Content-Security-Policy"]
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "@import" not in style
    assert "url(" not in style
    for char in "\x1b\u202e\u200b":
        assert char not in text


@pytest.mark.parametrize("name", ["converged", "requested"])
def test_both_formats_say_the_same_words(name: str) -> None:
    story, basin = (tellings.converged(), "mfa") if name == "converged" else (requested(), "auth")
    page = " ".join(Page(html(record(story, basin))).words)
    text = told(story, basin, facts=story.facts)
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    plain = re.sub(r"[`*|>\\]|&#8203;|^(#+|-|\d+\.) |[-:]{3,}", " ", plain, flags=re.MULTILINE)
    said = set(re.findall(r"\w+", plain)) - {"gt", "lt", "amp"}
    assert said <= set(re.findall(r"\w+", page))


def test_a_chart_has_a_bar_for_each_attempt_and_each_span() -> None:
    found = Page(html(record(tellings.converged(), "mfa")))
    kinds = [attributes.get("class") for tag, attributes in found.tags if tag == "rect"]
    assert [kinds.count(kind) for kind in ("met", "work", "wait")] == [4, 6, 1]
    named = [attributes.get("aria-label") for tag, attributes in found.tags if tag == "svg"]
    assert named == ["Required criteria met on the target, by attempt", "When what ran", "What came from where"]


def test_a_document_has_no_chart_without_a_sentence_behind_it() -> None:
    blocks = document(record(tellings.converged(), "mfa"))
    for at, block in enumerate(blocks):
        if isinstance(block, Progress | Timeline | Grafts):
            assert isinstance(blocks[at + 1], Paragraph)


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_no_secret_that_can_be_told_as_one_is_in_it() -> None:
    token = "ghp_" + "a" * 36
    story = Story().declare(goal=f"use {token}", macrostate=f"use {token}").start().check()
    story.tell(e.StepStarted(basin="auth", round=1, step="pushl", argv=()))
    done = {"basin": "auth", "round": 1, "step": "pushl", "detail": f"said {token}"}
    story.tell(e.StepEnded(status="done", url=f"https://ann:pass@example.org/home/ann/pull/7?{token}", **done))
    kept = msgspec.json.encode(record(story)).decode()
    assert "ghp_" not in kept
    assert "ann:pass" not in kept
    assert "@example.org/home/ann/pull/7" in kept  # a path there is none of this machine
    assert "***" in told(story, facts=story.facts)


@pytest.mark.parametrize("show", [prose, code])
def test_a_secret_is_taken_out_before_it_is_clipped_or_escaped(show: Callable[..., str]) -> None:
    token = "ghp_" + "a" * 36
    for text in (token, f"x | {token}"):
        assert "ghp" not in show(text)
        assert "ghp" not in show(text, most=12)
