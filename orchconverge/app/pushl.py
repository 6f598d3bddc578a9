"""The step `pushl`: what was judged goes to its remote, and its pull request is opened or brought up to date, once."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from msgspec import Struct

from orchconverge.app.closing import Closing, moved
from orchconverge.core.events import AnyFact
from orchconverge.core.judge import holds
from orchconverge.core.overlap import Change
from orchconverge.core.seen import StepResult, Work
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Sha
from orchconverge.core.values import StepStatus
from orchconverge.core.views import pull_request as words
from orchconverge.errors import Failed, OrchConvergeError, Refused
from orchconverge.ports.forge import Forge, ForgeError, PullRequest

MARKER = "orchconverge pushl"


class Asked(Struct, frozen=True, kw_only=True):
    """What a person asks for besides; the chain asks for nothing.

    ``force`` replaces what stands on the remote's branch, if it is still what was seen there last. With ``message`` what is
    uncommitted goes along, but only paths that match an ``include`` (if there is one) and no ``exclude``, as globs of the
    path or of its last part. ``labels_only`` and ``detect_outdated`` push nothing; ``dry_run`` changes nothing.
    """

    force: bool = False
    message: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    labels_only: bool = False
    detect_outdated: bool = False
    dry_run: bool = False


PLAIN = Asked()


def pushl(closing: Closing, basin: Basin, run: Run, facts: Sequence[AnyFact], *, asked: Asked = PLAIN) -> StepResult:
    """Push what was judged with a fixed refspec, never forced unless that is asked for; then see to the pull request."""
    return Pushl(closing, basin, run, asked).result()


class Ours(Struct, frozen=True, kw_only=True):
    """What is to be on the remote and in the pull request. ``unjudged`` commits are a person's, on top of what was checked."""

    head: Sha
    work: Work
    changes: tuple[Change, ...]
    unjudged: int = 0


@dataclass(frozen=True)
class Pushl:
    """One step. Each method ends it by raising `_Over`, or does its part."""

    closing: Closing
    basin: Basin
    run: Run
    asked: Asked

    def result(self) -> StepResult:
        """Push, see to the pull request, and say how far that went."""
        git, target = self.closing.git, self.basin.target
        head = git.resolve(f"refs/heads/{target}")
        try:
            if head is None:
                raise _Over("failed", f"the branch {target} is gone")
            self._fit()
            ours = self._ours(head)
            head = ours.head
            if self.asked.detect_outdated or self.asked.labels_only:
                return self._looked_after(ours)
            return self._requested(ours, self._pushed(ours))
        except _Over as over:
            return StepResult(status=over.status, detail=over.detail, url=over.url, commit=head)

    # --- the push ----------------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        """Nothing is pushed out of the middle of something."""
        git, target, settings = self.closing.git, self.basin.target, self.run.settings
        holder = git.checked_out_at(target)
        operation = git.checkout(holder).operation if holder is not None else None
        if operation is not None:
            raise _Over(
                "failed", f"a {operation} is in progress on {target}: end or abort it, then `orchconverge pushl`"
            )
        if holder is None and settings.place == "here":
            with suppress(Failed, OSError):  # a checkout that is gone holds nothing
                if git.checkout(Path(settings.checkout)).branch is None:
                    raise _Over("failed", f"HEAD is detached where {target} was: `git switch {target}` goes back to it")

    def _ours(self, head: Sha) -> Ours:
        """What is to be pushed: what was judged, and with a message what a person wants to go along."""
        git, basin, base = self.closing.git, self.basin, Sha(self.run.settings.base)
        committed = self._committed() if self.asked.message and not self.asked.dry_run else None
        if committed is None and (why := self.unfit(head)):
            raise _Over("failed", why)
        head = committed or head
        unjudged = len(git.work(basin.tip.head, head).commits) if committed and basin.tip is not None else 0
        changes = git.compare.difference(base, head, patch=False).changes if base != head else ()
        return Ours(head=head, work=git.work(base, head), changes=changes, unjudged=unjudged)

    def unfit(self, head: Sha) -> str:
        """Why a head that nobody asked for by a message may not be pushed; empty if it may."""
        return moved(self.closing.git, self.basin, head)

    def body(self, ours: Ours) -> str:
        """The description of the pull request, our part of it."""
        return words.body(self.basin, ours.work, ours.changes, unjudged=ours.unjudged)

    def _committed(self) -> Sha | None:
        """The commit of what is uncommitted and was asked for; ``None`` if that is nothing."""
        git, target = self.closing.git, self.basin.target
        holder = git.checked_out_at(target)
        if holder is None:
            raise _Over(
                "failed", f"{target} is checked out nowhere, so there is nothing to commit: leave --message out"
            )
        now = git.checkout(holder)
        without = [path for path in (*now.dirty, *now.untracked) if not self._wanted(path)]
        return git.commit_all(holder, f"{self.asked.message}\n", marker=MARKER, without=without)

    def _wanted(self, path: str) -> bool:
        def matches(globs: Sequence[str]) -> bool:
            return any(fnmatch.fnmatchcase(name, glob) for glob in globs for name in (path, PurePosixPath(path).name))

        return (not self.asked.include or matches(self.asked.include)) and not matches(self.asked.exclude)

    def _pushed(self, ours: Ours) -> str:
        """Push, and say so."""
        git, target, remote = self.closing.git, self.basin.target, self.run.settings.remote
        if remote not in git.remotes():
            raise _Over("skipped", f"no remote called {remote}; {self._recorded(ours)}")
        if target == git.default_branch(remote):
            detail = f"{target} is the default branch, which is never pushed unasked; {self._recorded(ours)}"
            raise _Over("skipped", detail)
        over = git.resolve(f"refs/remotes/{remote}/{target}") if self.asked.force else None
        if self.asked.force and over is None:
            raise _Over(
                "failed", f"what stands on {target} of {remote} was never seen here: `git fetch {remote}` first"
            )
        if self.asked.dry_run:
            return f"dry run: {target} at {ours.head:.8} would be pushed to {remote}"
        went, said = git.push(remote, ours.head, target, over=over)
        if not went:
            raise _Over("failed", f"push to {remote} failed: {said}{_what_to_do(said, remote)}")
        return f"{target} at {ours.head:.8} pushed to {remote}"

    # --- the pull request --------------------------------------------------------------------------------------------

    def _requested(self, ours: Ours, pushed: str) -> StepResult:
        """Open the pull request, or bring it up to date."""
        try:
            forge = self.closing.forge(self.basin, self.run)
        except (ForgeError, Refused) as error:  # nobody is signed in: what can be done without was done
            status = self._done if isinstance(error, ForgeError) else "failed"
            raise _Over(status, f"{pushed}; {_told(error)}; {self._recorded(ours)}") from error
        try:
            if forge.kind == "local":
                detail = f"{pushed}; no forge is known for {self.run.settings.remote}, {self._recorded(ours)}"
                return StepResult(status=self._done, detail=detail, commit=ours.head)
            there = forge.find(self.basin.target)
            if there is not None and there.state != "open" and (why := self._ended(there, ours.head)):
                raise _Over(why[0], f"{pushed}; {why[1]}", there.url)
            if (there is None or there.state != "open") and not ours.work.commits:
                raise _Over(self._done, f"{pushed}; nothing differs from where it began, so no pull request is opened")
            if self.asked.dry_run:
                return self._would(ours, pushed, there)
            return self._seen_to(forge, ours, pushed, there)
        except ForgeError as error:
            raise _Over("failed", f"{pushed}; {_told(error)}; {self._recorded(ours)}") from error

    @property
    def _done(self) -> StepStatus:
        return "skipped" if self.asked.dry_run else "done"

    def _ended(self, there: PullRequest, head: Sha) -> tuple[StepStatus, str] | None:
        """Why a pull request that is not open any more is the last word; ``None``: another one is opened."""
        if there.state == "merged":
            return ("done", f"pull request {there.number} was merged") if there.head == head else None
        return "failed", f"pull request {there.number} was closed: reopen it there, then `orchconverge pushl`"

    def _would(self, ours: Ours, pushed: str, there: PullRequest | None) -> StepResult:
        is_open = there is not None and there.state == "open"
        said = f"pull request {there.number} brought up to date" if there and is_open else "a pull request opened"
        named = ", ".join(words.labels(self.basin, ours.changes))
        url = there.url if there is not None and is_open else None
        return StepResult(status="skipped", detail=f"{pushed}, {said}, labels {named}", url=url, commit=ours.head)

    def _seen_to(self, forge: Forge, ours: Ours, pushed: str, there: PullRequest | None) -> StepResult:
        basin = self.basin
        text = self.body(ours)
        base = self.run.settings.onto or forge.home().default_branch
        draft = not holds(basin, basin.tip.results if basin.tip is not None else None)
        pull = forge.open(basin.target, base=base, title=words.title(basin), body=text, draft=draft)
        fresh = there is None or there.number != pull.number
        said = f"pull request {pull.number} {'opened' if fresh else 'brought up to date'}"
        pull = forge.update(pull.number, body=words.described(pull.body, text))
        if pull.draft and not draft and not self._ready(forge, pull):
            said += ", still a draft: mark it as ready there"
        elif draft and pull.draft:
            said += " as a draft"
        said += f", {self._labelled(forge, pull, ours)}"
        return StepResult(status="done", detail=f"{pushed}; {said}", url=pull.url, commit=ours.head)

    def _ready(self, forge: Forge, pull: PullRequest) -> bool:
        """A draft of ours is one no longer once what was required holds; a person's own stays one."""
        if pull.author != forge.me():
            return False
        try:
            return not forge.update(pull.number, draft=False).draft
        except ForgeError as error:
            if error.ambiguous:
                raise
            return False

    def _labelled(self, forge: Forge, pull: PullRequest, ours: Ours) -> str:
        """Labels are worth no failure: a token may be allowed to open a pull request and not to label it."""
        wanted = words.labels(self.basin, ours.changes)
        add, remove = words.relabelled(pull.labels, wanted)
        try:
            forge.label(pull.number, add=add, remove=remove)
        except ForgeError as error:
            if error.kind not in ("forbidden", "not_found", "invalid"):
                raise
            return f"not labelled: {error.message}"
        return f"labels {', '.join(wanted)}"

    def _looked_after(self, ours: Ours) -> StepResult:
        """What is asked of a pull request that is there, without a push."""
        try:
            forge = self.closing.forge(self.basin, self.run)
            there = forge.find(self.basin.target)
            if there is None or there.state != "open":
                raise _Over("failed", f"{self.basin.target} has no open pull request: `orchconverge pushl` opens one")
            said = []
            if self.asked.detect_outdated:
                said.append(words.outdated(there.body, len(ours.changes)) or "the description is up to date")
            if self.asked.labels_only:
                wanted = ", ".join(words.labels(self.basin, ours.changes))
                said.append(f"would get labels {wanted}" if self.asked.dry_run else self._labelled(forge, there, ours))
        except ForgeError as error:
            raise _Over("failed", _told(error)) from error
        detail = f"pull request {there.number}: {', '.join(said)}"
        return StepResult(status=self._done, detail=detail, url=there.url or None, commit=ours.head)

    def _recorded(self, ours: Ours) -> str:
        """Keep the pull request as a record and a bundle; says what there is."""
        name = f"pr/{self.basin.id}.json"
        if self.asked.dry_run:
            return f"the pull request record would be {name}"
        basin, record = self.basin, self.closing.record(self.basin, self.run)
        text = self.body(ours)
        base = self.run.settings.onto or record.home().default_branch
        draft = not holds(basin, basin.tip.results if basin.tip is not None else None)
        pull = record.open(basin.target, base=base, title=words.title(basin), body=text, draft=draft)
        record.update(pull.number, body=words.described(pull.body, text), draft=draft)
        self._labelled(record, pull, ours)
        if not ours.work.commits:
            return f"the pull request record is {name}"
        try:
            bundle = self.closing.state / "pr" / f"{basin.id}.bundle"
            self.closing.git.bundle(bundle, ours.work.base, basin.target)
            bundle.chmod(0o600)
        except Failed as error:
            return f"the pull request record is {name} (no bundle: {error.message})"
        return f"the pull request record is {name}, with a bundle beside it"


class _Over(Exception):
    """The step is over before its end: how, and why."""

    def __init__(self, status: StepStatus, detail: str, url: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.url = url or None


def _told(error: OrchConvergeError) -> str:
    return f"no pull request: {error.message}" + (f" ({error.hint})" if error.hint else "")


def _what_to_do(said: str, remote: str) -> str:
    """What helps when git's own word is that somebody else moved the branch."""
    if "non-fast-forward" in said or "fetch first" in said:
        return f": `git fetch {remote}` and merge what is there, or `orchconverge pushl force` to replace it"
    if "stale info" in said:
        return f": it was moved since it was seen here; `git fetch {remote}` shows by what"
    return ""
