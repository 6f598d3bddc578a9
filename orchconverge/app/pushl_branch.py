"""`pushl` where no destination was ever written down: the current branch goes to its remote, described by git alone."""

from __future__ import annotations

import hashlib

from orchconverge.app.closing import Closing
from orchconverge.app.pushl import Asked, Ours, Pushl
from orchconverge.core.seen import StepResult
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Budget, Sha, Termination, slug
from orchconverge.core.values import ControllerId, Limits, Settings
from orchconverge.core.views import pull_request as words
from orchconverge.errors import Refused


def branch_here(closing: Closing, *, remote: str, message: str = "") -> tuple[Basin, Run]:
    """The current branch as if it were a destination without criteria, never recorded, for what is asked of a forge.

    Its title is the first line of ``message``, else the subject of its newest commit. Raises `Refused` for a detached HEAD,
    also one of a rebase in progress, the default branch, and a branch that has nothing of its own.
    """
    git = closing.git
    stands, default = git.checkout(git.root), git.default_branch(remote)
    branch, head = stands.branch, stands.head
    if branch is None and stands.operation is not None:
        raise Refused(f"a {stands.operation} is in progress here", hint="end or abort it, then orchconverge pushl")
    if branch is None or head is None:
        raise Refused("no branch with a commit is checked out here", hint="git switch -c NAME gives this one a name")
    if branch == default:
        raise Refused(f"{branch} is the default branch, which is never pushed", hint="git switch -c NAME, then again")
    begun = None
    if default is not None:
        begun = git.resolve(f"refs/remotes/{remote}/{default}") or git.resolve(f"refs/heads/{default}")
    base = git.compare.fork(begun, head) if begun is not None else None
    if default is None or base is None:
        ask = f"set-head {remote} --auto" if remote in git.remotes() else f"add {remote} URL"
        raise Refused(f"it is not known what {branch} began from", hint=f"git remote {ask}")
    commits = git.work(base, head).commits
    if not commits and not message:
        raise Refused(f"{branch} has no commit that {default} does not have", hint='commit first, or add --message "…"')
    subjects = [commit.subject for commit in commits]
    title = (message.strip() or subjects[0]).splitlines()[0]
    settings = Settings(checkout=str(git.root), place="here", engines=(), remote=remote, base=base, onto=default)
    basin = Basin(
        id=_named(branch),
        title=title,
        macrostate=title,
        goal="\n".join([title, *subjects]),
        criteria=(),
        termination=Termination(attempts=1),
        budget=Budget(),
        target=branch,
    )
    nobody = ControllerId(host="", boot="", pid=0, start=0)
    return basin, Run(id="", controller=nobody, settings=settings, limits=Limits(), started=None, open=False)


def push_branch(closing: Closing, basin: Basin, run: Run, *, asked: Asked) -> StepResult:
    """Push what `branch_here` found, and open its pull request or bring it up to date. Raises `Refused`, `Failed`."""
    return _Branch(closing, basin, run, asked).result()


class _Branch(Pushl):
    """A push that a person asks for of a branch that nothing was checked on, and that says so."""

    def unfit(self, head: Sha) -> str:
        return ""

    def body(self, ours: Ours) -> str:
        return words.body_of_branch(ours.work, ours.changes)


def _named(branch: str) -> str:
    """What its record is called: two branches never share one."""
    name = slug(branch, longest=30)
    return name if name == branch else f"{name}-{hashlib.sha256(branch.encode('utf-8', 'replace')).hexdigest()[:6]}"
