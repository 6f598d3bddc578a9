"""The repository: every question that the application has for git, and every change it makes there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Self

from orchconverge.adapters.git_behalf import Behalf
from orchconverge.adapters.git_compare import Comparison
from orchconverge.adapters.git_grafts import Grafting
from orchconverge.adapters.git_history import History
from orchconverge.adapters.git_include import include
from orchconverge.adapters.git_modules import fill
from orchconverge.adapters.git_process import FULL_ID, SLOW_SECONDS, Result, branch_ref, full_id, run_git
from orchconverge.adapters.git_remotes import Remotes
from orchconverge.adapters.git_tamper import fingerprint
from orchconverge.adapters.git_trees import Trees
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused
from orchconverge.files import write_inside
from orchconverge.ports import Checkout, Work

TRIES = 5
"""How often a commit by plumbing is made anew because the branch moved under it."""


class Repository:
    """A repository seen from one of its working trees, ``root``. Implements `orchconverge.ports.Git`."""

    root: Path
    common_dir: Path

    def __init__(self, *, root: Path, common_dir: Path, trees: Path) -> None:
        self.root = root
        self.common_dir = common_dir
        self._trees = Trees(self.run, root=root, common_dir=common_dir, ours=trees)
        self._identity: dict[str, str] | None = None
        self._tree_ids: dict[Sha, Sha] = {}
        self._remotes = Remotes(self.run, self.resolve)
        self._history = History(self.run)
        grafting = Grafting(self.run, add=self.add_worktree, remove=self._trees.remove, who=self._who)
        self.squash, self.patch = grafting.squash, grafting.patch
        self.landed, self.changed = grafting.landed, grafting.changed
        behalf = Behalf(self.run, stands=self.checkout, who=self._who)
        self.commit_all, self.author = behalf.commit_all, behalf.author
        self.compare = Comparison(self.run, common_dir)

    @classmethod
    def open(cls, cwd: Path, *, trees: Path) -> Self:
        """Find the repository around ``cwd``; only below ``trees`` will it ever remove anything. Raises `Refused`."""
        here = cls(root=cwd, common_dir=cwd, trees=trees)
        bare = here.run(["rev-parse", "--is-bare-repository"], check=False)
        if bare.code and "dubious ownership" in bare.err:
            line = next((line.strip() for line in bare.err.splitlines() if "safe.directory" in line), "")
            raise Refused(f"git does not trust the repository at {cwd}: another user owns it", hint=f"type `{line}`")
        if bare.code:
            missing = "not a git repository" in bare.err
            hint = "`git init`, and one commit" if missing else "`git status` there shows the same"
            raise Refused(f"{cwd}: {'not a git repository' if missing else bare.reason}", hint=hint)
        top = here.run(["rev-parse", "--show-toplevel"], check=False)
        if bare.text == "true" or top.code:
            what = "a bare repository" if bare.text == "true" else "inside a git directory"
            raise Refused(f"{cwd} is {what}, not a working tree", hint="`git worktree add` makes one")
        common = here.run(["rev-parse", "--path-format=absolute", "--git-common-dir"]).text
        found = cls(root=Path(top.text).resolve(), common_dir=Path(common).resolve(), trees=trees)
        if found.resolve("HEAD") is None and not found.run(["for-each-ref", "--count=1", "refs/heads/"]).out:
            raise Refused(f"{found.root} needs one commit to start from", hint='`git commit --allow-empty -m "start"`')
        return found

    def run(
        self,
        args: Sequence[str],
        *,
        cwd: Path | None = None,
        stdin: bytes | None = None,
        deadline_seconds: float = 60.0,
        env: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> Result:
        """Run one git command, in `root` if nothing else is said. Raises `Failed`, without ``check`` at the deadline only."""
        result = run_git(
            args, cwd=cwd or self.root, stdin=stdin, deadline_seconds=deadline_seconds, env={} if env is None else env
        )
        if check and result.code:
            raise result.failure(args[0])
        return result

    # --- questions ---------------------------------------------------------------------------------------------------

    def identity(self) -> bool:
        """Whether git knows who commits here, by its settings or the environment: nothing is guessed from the machine."""
        asked = [["-c", "user.useConfigOnly=true", "var", f"GIT_{who}_IDENT"] for who in ("AUTHOR", "COMMITTER")]
        return all(self.run(args, check=False).code == 0 for args in asked)

    def resolve(self, ref: str) -> Sha | None:
        """The commit that a ref or id names, or ``None``. Of a branch and a tag of one name it is the branch."""
        if not ref or "\n" in ref:
            return None
        exact = ref == "HEAD" or FULL_ID.fullmatch(ref) or ref.startswith("refs/")
        asked = [ref] if exact else [f"refs/heads/{ref}", ref]
        lines = os.fsencode("".join(f"{name}^{{commit}}\n" for name in asked))
        answers = self.run(["cat-file", "--batch-check"], stdin=lines).out.split(b"\n")
        found = next((answer for answer in answers if answer.split(b" ")[1:2] == [b"commit"]), None)
        return None if found is None else Sha(found.split(b" ")[0].decode())

    def tree_of(self, commit: Sha) -> Sha:
        """The tree of a commit. It never changes, and is asked for once."""
        if commit not in self._tree_ids:
            asked = ["rev-parse", "--verify", "--end-of-options", f"{full_id(commit)}^{{tree}}"]
            self._tree_ids[commit] = Sha(self.run(asked).text)
        return self._tree_ids[commit]

    def checkout(self, path: Path) -> Checkout:
        """How the working tree at ``path`` stands; ``untracked`` ends in ``/`` where another repository begins."""
        operation = self._trees.operation(path)
        flags = ["--untracked-files=all", "--no-renames", "--no-ahead-behind", "--ignore-submodules=none"]
        out = self.run(["status", "--porcelain=v2", "--branch", "-z", *flags], cwd=path, deadline_seconds=SLOW_SECONDS)
        branch, head, dirty, untracked = None, None, [], []
        for entry in os.fsdecode(out.out).split("\0"):
            kind, _, rest = entry.partition(" ")
            if entry.startswith("# branch.oid "):
                head = None if rest == "branch.oid (initial)" else Sha(rest.removeprefix("branch.oid "))
            elif entry.startswith("# branch.head "):
                branch = None if rest == "branch.head (detached)" else rest.removeprefix("branch.head ")
            elif kind == "?":
                untracked.append(rest)
            elif kind in ("1", "u"):
                dirty.append(rest.split(" ", 7 if kind == "1" else 9)[-1])
                operation = operation or ("conflict" if kind == "u" else None)
        return Checkout(branch=branch, head=head, dirty=tuple(dirty), untracked=tuple(untracked), operation=operation)

    def checked_out_at(self, branch: str) -> Path | None:
        """The working tree that has ``branch`` checked out, or is rebasing or bisecting it."""
        return self._trees.holder(branch)

    def fingerprint(self) -> str:
        """A digest of the settings, hooks and attributes that all trees share, without what daily work writes there."""
        return fingerprint(self.run, self.common_dir)

    def default_branch(self, remote: str) -> str | None:
        """What ``remote`` calls its HEAD, as recorded here or asked for once; else main or master if they exist."""
        return self._remotes.default_branch(remote)

    def remotes(self) -> Mapping[str, str]:
        """Remote name -> push URL, as `git push` would use it. It may hold a password: never log it as it is."""
        return self._remotes.urls()

    def fetch(self, remote: str, ref: str, name: str) -> Sha:
        """Bring what a ref of a remote stands at to a private ref. See `orchconverge.ports.Git`."""
        return self._remotes.fetch(remote, ref, name)

    def push(self, remote: str, sha: Sha, branch: str, *, over: Sha | None = None) -> tuple[bool, str]:
        """Push one commit to one branch, by force ``over`` one commit alone: whether it is there, and git's word."""
        return self._remotes.push(remote, sha, branch, over=over)

    def work(self, base: Sha, head: Sha) -> Work:
        """What ``head`` adds to ``base``: commits newest first; a rename is a path removed and a path added."""
        return self._history.work(base, head)

    def unmarked(self, branch: str, marker: str, *, since: Sha) -> frozenset[Sha]:
        """What was put onto ``branch`` after it stood at ``since``, by the reflog, under another action than ``marker``."""
        return self._history.unmarked(branch_ref(branch), marker, since=since)

    def merges(self, base: Sha, head: Sha) -> bool | None:
        """Whether the two merge without conflict; ``None`` if it cannot be told (an old git, no common history)."""
        asked = ["merge-tree", "--write-tree", "--no-messages", "--end-of-options", full_id(base), full_id(head)]
        try:
            told = self.run(asked, check=False, deadline_seconds=SLOW_SECONDS)
        except Failed:
            return None
        # Also 1 when it cannot read one of the two; but only of two that it tried does it print a tree.
        return told.code == 0 if told.code in (0, 1) and told.out else None

    def bundle(self, path: Path, base: Sha, branch: str) -> None:
        """Write what ``branch`` adds to ``base`` into one file that `git fetch` reads. Raises `Failed` if that is nothing."""
        asked = ["bundle", "create", "--quiet", "--end-of-options", str(path.absolute()), branch_ref(branch)]
        self.run([*asked, f"^{full_id(base)}"], deadline_seconds=SLOW_SECONDS)

    # --- branches and worktrees --------------------------------------------------------------------------------------

    def create_branch(self, branch: str, at: Sha) -> None:
        """Create ``branch`` without touching any checkout; already there at ``at`` is not an error. Raises `Refused`."""
        self._create(branch, at)

    def _create(self, branch: str, at: Sha) -> bool:
        made = self.run(["update-ref", "--end-of-options", branch_ref(branch), full_id(at), ""], check=False)
        if made.code == 0:
            return True
        standing = self.resolve(branch_ref(branch))
        if standing == at:
            return False
        if standing is not None:
            raise Refused(f"branch {branch} exists already, at {standing:.8}", hint="choose another name")
        above = [str(parent) for parent in PurePosixPath(branch).parents][:-1]
        taken = [name for name in above if self.resolve(f"refs/heads/{name}")]
        below = ["for-each-ref", "--count=1", "--format=%(refname:lstrip=2)", f"{branch_ref(branch)}/"]
        taken += filter(None, [self.run(below).text])
        if taken:
            raise Refused(f"branch {branch} cannot exist beside branch {taken[0]}", hint="choose another name")
        raise Refused(f"branch {branch} cannot be created: {made.reason}")

    def add_worktree(self, path: Path, *, branch: str | None, at: Sha) -> None:
        """Add a linked worktree of ours on a new ``branch`` (``None``: detached). Idempotent by path and branch."""
        if self._trees.stands(path, ref=branch_ref(branch) if branch else None, at=full_id(at)):
            return
        created = branch is not None and self._create(branch, at)
        try:
            self._trees.add(path, branch=branch, at=at)
        except (Failed, Refused, OSError) as failure:
            if branch and created:
                self.run(["update-ref", "-d", "--end-of-options", branch_ref(branch), at], check=False)
            elsewhere = self.checked_out_at(branch) if branch and not created else None
            if elsewhere is not None:
                raise Refused(f"branch {branch} is checked out at {elsewhere}", hint="it stays there") from failure
            raise

    def made(self, path: Path) -> str:
        """What tells a worktree of ours from one that was removed and added again at the same place. Raises `Failed`."""
        return self._trees.made(path)

    def nested(self, path: Path) -> tuple[str, ...]:
        """Repositories inside the working tree at ``path`` that hold what is nowhere else, the submodules among them."""
        stands = self.checkout(path)
        own = [name for name in stands.untracked if name.endswith("/")]
        return (*own, *self._trees.linked_work(path, changed=stands.dirty))

    def remove_worktree(self, path: Path) -> None:
        """Remove a linked worktree of ours with all that is in it; never anything else. Keep first what is to be kept."""
        self._trees.remove(path)

    def include(self, path: Path) -> tuple[str, ...]:
        """Copy what `.worktreeinclude` names into a tree of ours; returns the paths."""
        return include(self.run, self.root, path)

    def fill(self, path: Path) -> tuple[str, ...]:
        """Fill the submodules of a tree of ours from what is here; returns why others stay empty. Raises `Refused`."""
        tree = self._trees.place(path)
        git_dir = self._trees.git_dir(tree)
        return tuple(fill(self.run, tree=tree, git_dir=git_dir, place=self.root, store=self.common_dir))

    def keep(self, name: str, commit: Sha) -> None:
        """Point ``refs/orchconverge/keep/<name>`` at a commit, so that it is never pruned."""
        self.run(["update-ref", "--end-of-options", f"refs/orchconverge/keep/{name}", full_id(commit)])

    # --- commits -----------------------------------------------------------------------------------------------------

    def snapshot(self, path: Path, name: str) -> Sha | None:
        """Commit what is uncommitted at ``path`` onto the keep-ref ``name``; index and tree stay as they are.

        Not in it: ignored files, and what is uncommitted inside submodules and other repositories below ``path``.
        """
        stands = self.checkout(path)
        if not stands.dirty and not stands.untracked:
            return None
        with self._spare_index() as (index, env):
            # A copy saves git from reading every file again; with its own time, or a change in the same tick is missed.
            real = self._trees.git_dir(path) / "index"
            if real.is_file():
                shutil.copy2(real, index)
            self._stage(path, stands, env)
            tree = Sha(self.run(["write-tree"], cwd=path, env=env).text)
        if stands.head is not None and tree == self.tree_of(stands.head):
            return None
        commit = self._commit_tree(tree, parent=stands.head, message=f"orchconverge: left uncommitted by {name}")
        self.keep(name, commit)
        return commit

    def _stage(self, path: Path, stands: Checkout, env: Mapping[str, str]) -> None:
        # A repository inside the tree would be added as a link to a commit that nobody else has.
        others = [f":(exclude,top,literal){name.rstrip('/')}" for name in stands.untracked if name.endswith("/")]
        self.run(["add", "--all", "--", ":/", *others], cwd=path, env=env, deadline_seconds=SLOW_SECONDS)

    def _commit(self, path: Path, message: str, args: Sequence[str]) -> Sha:
        fixed = ["commit", "--quiet", "--no-verify", "--cleanup=whitespace", "--file=-"]
        text = message.encode("utf-8", "replace")
        self.run([*fixed, *args], cwd=path, stdin=text, env=self._who(), deadline_seconds=SLOW_SECONDS)
        return Sha(self.run(["rev-parse", "--verify", "HEAD^{commit}"], cwd=path).text)

    def offer(self, basin: str, commit: Sha) -> None:
        """Point ``refs/orchconverge/proposal/<basin>`` at a commit."""
        self.run(["update-ref", "--end-of-options", f"refs/orchconverge/proposal/{basin}", full_id(commit)])

    def commit_tree(self, tree: Sha, *, parent: Sha, message: str) -> Sha:
        """A commit object of exactly ``tree``; no ref moves."""
        return self._commit_tree(full_id(tree), parent=parent, message=message)

    def _commit_tree(self, tree: Sha, *, parent: Sha | None, message: str) -> Sha:
        parents = [] if parent is None else ["-p", full_id(parent)]
        made = ["commit-tree", *parents, "-F", "-", "--end-of-options", tree]
        return Sha(self.run(made, stdin=message.encode("utf-8", "replace"), env=self._who()).text)

    def advance(self, branch: str, *, new: Sha, old: Sha) -> bool:
        """Move ``branch`` from ``old`` to ``new``, and a clean checkout of it along. False if it was moved meanwhile."""
        tip = self.resolve(branch_ref(branch))
        if tip != old or old == new:
            return tip == new
        if self.run(["merge-base", "--is-ancestor", "--end-of-options", full_id(old), full_id(new)], check=False).code:
            raise Refused(f"{new:.8} does not descend from {old:.8}: {branch} is never rewound")
        holder = self.checked_out_at(branch)
        stands = None if holder is None else self.checkout(holder)
        if holder is None or stands is None or (stands.dirty and self._moved_already(holder, new)):
            moved = self._swap(branch, new=new, old=old)
        else:
            _refuse_busy(holder, stands, branch)
            if stands.dirty:
                raise Refused(f"{holder} has uncommitted changes: {_some(stands.dirty)}", hint="commit or stash them")
            # What is ignored there (an .env) is a person's too. A branch's own merge options could make it a real merge.
            flags = ["--ff-only", "--no-overwrite-ignore", "--no-autostash", "--quiet", "--end-of-options"]
            key = f"branch.{branch}.mergeOptions"
            plain = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": ""}
            env = {**self._who(), **plain}
            moved = self.run(["merge", *flags, new], cwd=holder, env=env, check=False, deadline_seconds=SLOW_SECONDS)
        tip = self.resolve(branch_ref(branch))
        if tip == old:
            raise Refused(f"{branch} cannot be moved to {new:.8}: {moved.reason}")
        return tip == new

    def _moved_already(self, holder: Path, new: Sha) -> bool:
        """Whether a killed fast-forward left exactly ``new`` in index and files, and only the ref is missing."""
        compare = ["diff", "--quiet", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none"]
        return all(
            self.run([*compare, *more, new, "--"], cwd=holder, check=False, deadline_seconds=SLOW_SECONDS).code == 0
            for more in (["--cached"], [])
        )

    def _swap(self, branch: str, *, new: Sha, old: Sha) -> Result:
        swap = ["update-ref", "-m", "orchconverge: graft", "--end-of-options", branch_ref(branch), new, old]
        return self.run(swap, check=False)

    def commit_file(self, branch: str, path: str, text: str, message: str) -> Sha:
        """Commit one file alone on ``branch``, in the checkout that has it, else by plumbing; nothing else goes in."""
        parts = PurePosixPath(path).parts
        path = str(PurePosixPath(path))
        if not parts or parts[0] == "/" or ".." in parts or ".git" in [part.lower() for part in parts]:
            raise Refused(f"{path} is not a path inside the repository")
        data = text.encode("utf-8", "replace")
        holder = self.checked_out_at(branch)
        where = holder or self.root
        blob = self.run(["hash-object", "-w", "--stdin", f"--path={path}"], cwd=where, stdin=data).text
        for _ in range(TRIES):
            tip = self.resolve(branch_ref(branch))
            if tip is None:
                raise Refused(f"there is no branch {branch}")
            there = self.run(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{tip}:{path}"], check=False)
            if there.code == 0 and there.text == blob:
                return Sha(self.run(["log", "-1", "--format=%H", tip, "--", f":(top,literal){path}"]).text)
            if holder is not None:
                return self._commit_file_at(holder, branch, path, data, message, known=there.code == 0)
            with self._spare_index() as (_, env):
                self.run(["read-tree", tip], env=env, deadline_seconds=SLOW_SECONDS)
                entry = b"100644 " + blob.encode() + b"\t" + os.fsencode(path) + b"\0"
                self.run(["update-index", "-z", "--index-info"], env=env, stdin=entry)
                tree = Sha(self.run(["write-tree"], env=env).text)
            commit = self._commit_tree(tree, parent=tip, message=message)
            if self._swap(branch, new=commit, old=tip).code == 0:
                return commit
        raise Failed(f"{branch} moves too fast to commit {path} on it")

    def _commit_file_at(self, holder: Path, branch: str, path: str, data: bytes, message: str, *, known: bool) -> Sha:
        stands = self.checkout(holder)
        _refuse_busy(holder, stands, branch)
        target = holder / path
        theirs = path in stands.dirty or (not known and os.path.lexists(target))
        if theirs and not (target.is_file() and not target.is_symlink() and target.read_bytes() == data):
            raise Refused(f"{path} in {holder} has content that is not committed", hint="commit it or move it away")
        write_inside(holder, path, data)
        literal = {"GIT_LITERAL_PATHSPECS": "1"}
        self.run(["add", "--force", "--sparse", "--", path], cwd=holder, env=literal)
        return self._commit(holder, message, ["--only", "--", f":(top,literal){path}"])

    @contextmanager
    def _spare_index(self) -> Iterator[tuple[Path, dict[str, str]]]:
        with tempfile.TemporaryDirectory(prefix="orchconverge-") as folder:
            index = Path(folder) / "index"
            yield index, {"GIT_INDEX_FILE": str(index)}

    def _who(self) -> dict[str, str]:
        """The user's own identity if git has one (then nothing needs saying), else ours."""
        if self._identity is None:
            known = self.identity()
            ours = {"NAME": "orchconverge", "EMAIL": "orchconverge@localhost"}
            names = [(f"GIT_{who}_{what}", text) for who in ("AUTHOR", "COMMITTER") for what, text in ours.items()]
            self._identity = {} if known else {name: os.environ.get(name) or text for name, text in names}
        return self._identity


def _refuse_busy(holder: Path, stands: Checkout, branch: str) -> None:
    if stands.operation or stands.branch != branch:
        what = stands.operation or "change of branch"
        raise Refused(f"{branch} is in use at {holder}, in the middle of a {what}", hint="finish or abort that first")


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
