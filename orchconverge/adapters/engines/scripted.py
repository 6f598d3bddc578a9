"""The deterministic engine: plays acts from a file, costs nothing, and is what the loop is tested with."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from orchconverge.adapters.engines.reading import amount, count, lines, moment, part, record, text
from orchconverge.adapters.engines.scripted_player import Stop, load
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Limit, Settings, Usage
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch

PASS_THROUGH: tuple[str, ...] = ()
PLAYER = Path(__file__).with_name("scripted_player.py")


class Scripted:
    """``--engine scripted --script FILE``. What a file holds is said in `scripted_player`."""

    name = "scripted"
    variables: tuple[str, ...] = PASS_THROUGH
    contextual = False
    commits = True
    """What the newest script that was read says."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        del environ  # it needs none

    def find(self) -> str | None:
        """The interpreter that runs us."""
        return sys.executable

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """The player on the script, told which branch, attempt and approach this is, or which judge. Raises `Refused`."""
        script = self.script(settings)
        if brief.judge and not _answers(script, brief.judge):
            raise Refused(
                f"the script has no mind that answers {brief.judge}", hint='add one with "match": {"judge": …}'
            )
        mind = (f"--branch={brief.branch}", f"--attempt={brief.attempt}", f"--approach={brief.approach}")
        told = (f"--judge={brief.judge}", f"--attempt={brief.attempt}") if brief.judge else mind
        return Launch(
            argv=(sys.executable, "-I", "-S", str(PLAYER), f"--script={script}", *told),
            env={"ORCHCONVERGE_REPORT": str(brief.report_path)},
        )

    def playable(self, settings: Settings) -> None:
        """Raises `Refused` for a script that is not there, or that cannot be played."""
        try:
            load(str(self.script(settings)))
        except Stop as bad:
            raise Refused(bad.line, hint="what a script holds: docs/engines.md") from None

    def script(self, settings: Settings) -> Path:
        """The script's absolute path; a relative one is of ``settings.checkout``. Raises `Refused`."""
        if not settings.script:
            raise Refused("engine `scripted` has no script", hint="add `--script FILE`")
        path = Path(settings.checkout) / settings.script
        if not path.is_file():
            raise Refused(f"there is no script {path}", hint="give an existing file to `--script`")
        return path

    def read(self, log: bytes) -> Outcome:
        """Sums its usage lines; the last limit counts; the summary is the last line said."""
        usage: Usage | None = None
        limit: Limit | None = None
        said = ""
        for line in lines(log):
            found = record(line) or {}
            if found.get("type") == "usage":
                usage = _sum(usage or Usage(), found)
            elif found.get("type") == "commits":
                self.commits = found.get("value") is not False
            elif found.get("type") == "ratelimit":
                limit = Limit(engine=self.name, until=moment(part(found, "reset")))
            else:
                said = text(line.decode("utf-8", "replace")) or said
        return Outcome(usage=usage, limit=limit, summary=said)


def _answers(script: Path, judge: str) -> bool:
    """Whether a script has a mind for that judge. What cannot be read the player explains."""
    try:
        minds = json.loads(script.read_bytes())["minds"]
        named = [mind["match"].get("judge") for mind in minds if "match" in mind]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return True
    return judge in named or any(isinstance(each, list) and judge in each for each in named)


def _sum(usage: Usage, more: dict[str, object]) -> Usage:
    usd = amount(more.get("usd"))
    total = usage.usd if usd is None else (usage.usd or 0.0) + usd
    return Usage(
        inputTokens=usage.inputTokens + count(more.get("inputTokens")),
        outputTokens=usage.outputTokens + count(more.get("outputTokens")),
        cacheReadTokens=usage.cacheReadTokens + count(more.get("cacheReadTokens")),
        cacheWriteTokens=usage.cacheWriteTokens + count(more.get("cacheWriteTokens")),
        usd=total,
        source="unknown" if total is None else "reported",
    )
