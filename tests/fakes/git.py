"""A repository in memory: commits with parents and whole trees, refs with reflogs, working trees, keep-refs.

Trees are whole files, so two sides that change one file conflict; file modes, ignored files and the index are not modelled.
Folders of added working trees exist, empty, since their names are read. ``between`` is called in the middle of what real git
does in several steps, and may raise: then it is as if git had been killed there.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from orchconverge.core.fingerprints import Blob, blob
from orchconverge.core.overlap import Change, Claim, Difference, Lines, Merge
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused
from orchconverge.ports import Checkout, Commit, Landed, Squash, Work

FULL = re.compile(r"[0-9a-f]{40}")
BRANCH = re.compile(r"(?!-)(?!HEAD$)[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
Files = dict[str, str]


class Stored(NamedTuple):
    """A commit. ``number`` is the order in which they were made."""

    parents: tuple[Sha, ...]
    tree: Sha
    author: str
    message: str
    number: int


class Moved(NamedTuple):
    """A ref that moved, and by whom."""

    branch: str
    old: Sha | None
    new: Sha
    by: str


class Tree:
    """A working tree: what is checked out and what lies there now."""

    def __init__(self, *, branch: str | None, head: Sha | None, files: Files, ours: bool) -> None:
        self.branch = branch
        self.detached = head
        self.files = files
        self.ours = ours
        self.operation: str | None = None
        self.number = 0
        """Which one of those that were added."""
        self.prepared = False
        """Whether a setup command ran in it."""


class Store:
    """What all processes share: objects, refs and working trees; and what people and minds do by hand."""

    def __init__(self, root: Path, files: Mapping[str, str], *, branch: str = "main") -> None:
        self.root = root
        self.commits: dict[Sha, Stored] = {}
        self.trees: dict[Sha, Files] = {}
        self.refs: dict[str, Sha] = {}
        self.reflogs: dict[str, list[tuple[Sha, str]]] = {}
        self.places: dict[Path, Tree] = {}
        self.moves: list[Moved] = []
        self.added = 0
        self.config = "as it was"
        self.pushed: dict[str, dict[str, Sha]] = {}
        start = self.make(dict(files), parents=(), author="ann", message="start")
        self.places[root] = Tree(branch=branch, head=None, files=dict(files), ours=False)
        self.move(f"refs/heads/{branch}", start, by="ann")

    # --- objects -----------------------------------------------------------------------------------------------------

    def tree(self, files: Mapping[str, str]) -> Sha:
        """The id of a tree of these files."""
        digest = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.trees.setdefault(Sha(digest), dict(files))
        return Sha(digest)

    def make(self, files: Mapping[str, str], *, parents: tuple[Sha, ...], author: str, message: str) -> Sha:
        """A commit object; no ref moves."""
        tree = self.tree(files)
        told = repr((parents, tree, author, message, len(self.commits)))
        sha = Sha(hashlib.sha1(told.encode()).hexdigest())
        self.commits.setdefault(sha, Stored(parents, tree, author, message, len(self.commits)))
        return sha

    def files(self, commit: Sha) -> Files:
        return self.trees[self.commits[commit].tree]

    def reach(self, *tips: Sha) -> set[Sha]:
        """All commits that can be reached from these."""
        seen: set[Sha] = set()
        todo = list(tips)
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo += self.commits[one].parents
        return seen

    def move(self, ref: str, new: Sha, *, by: str, action: str = "commit") -> None:
        old = self.refs.get(ref)
        self.refs[ref] = new
        if ref.startswith("refs/heads/"):
            self.reflogs.setdefault(ref, []).insert(0, (new, action))
            self.moves.append(Moved(ref.removeprefix("refs/heads/"), old, new, by))

    # --- working trees -----------------------------------------------------------------------------------------------

    def head(self, tree: Tree) -> Sha | None:
        return tree.detached if tree.branch is None else self.refs.get(f"refs/heads/{tree.branch}")

    def tracked(self, tree: Tree) -> Files:
        head = self.head(tree)
        return {} if head is None else self.files(head)

    def holder(self, branch: str) -> Path | None:
        return next((path for path, tree in self.places.items() if tree.branch == branch), None)

    def commit(self, path: Path, changes: Mapping[str, str | None], message: str, *, by: str, action: str = "") -> Sha:
        """What a person or a mind does in a working tree: change files, ``None`` deletes, and commit all of it."""
        tree = self.places[path]
        for name, text in changes.items():
            if text is None:
                tree.files.pop(name, None)
            else:
                tree.files[name] = text
        head = self.head(tree)
        sha = self.make(tree.files, parents=() if head is None else (head,), author=by, message=message)
        if tree.branch is None:
            tree.detached = sha
        else:
            self.move(f"refs/heads/{tree.branch}", sha, by=by, action=f"{action or 'commit'}: {message}")
        return sha

    def commit_away(self, branch: str, changes: Mapping[str, str], message: str, *, by: str) -> Sha:
        """What a push from elsewhere, or a commit by plumbing, does to a branch that nobody has checked out."""
        old = self.refs[f"refs/heads/{branch}"]
        sha = self.make({**self.files(old), **changes}, parents=(old,), author=by, message=message)
        self.move(f"refs/heads/{branch}", sha, by=by, action="push")
        return sha

    def merge(self, branch: str, head: Sha, *, by: str) -> bool:
        """`git merge` of a commit, with its history. False if there are conflicts: the person gives it up then."""
        old = self.refs[f"refs/heads/{branch}"]
        common = self.reach(old) & self.reach(head)
        fork = max(common, key=lambda sha: self.commits[sha].number)
        files, conflicts = _three_way(self.files(fork), self.files(old), self.files(head))
        if conflicts or head in self.reach(old):
            return False
        made = self.make(files, parents=(old, head), author=by, message="merged by hand")
        self.move(f"refs/heads/{branch}", made, by=by, action="merge")
        place = self.holder(branch)
        if place is not None:
            self.places[place].files = dict(files)
        return True

    def switch(self, path: Path, branch: str | None, *, create: bool = False) -> bool:
        """`git switch`: refused with changes, in the middle of something, and for a branch that is in use."""
        tree = self.places[path]
        head = self.head(tree)
        if tree.operation or self.dirt(tree)[0] or head is None:
            return False
        if branch is not None and self.holder(branch) is not None:
            return False
        if branch is not None and f"refs/heads/{branch}" not in self.refs:
            if not create:
                return False
            self.move(f"refs/heads/{branch}", head, by="switch", action="branch: Created")
        loose = {name: tree.files[name] for name in self.dirt(tree)[1]}
        tree.branch, tree.detached = branch, head if branch is None else None
        tree.files = {**self.tracked(tree), **loose}
        return True

    def dirt(self, tree: Tree) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Changed paths and untracked ones."""
        tracked = self.tracked(tree)
        dirty = sorted(name for name, text in tracked.items() if tree.files.get(name) != text)
        return tuple(dirty), tuple(sorted(tree.files.keys() - tracked.keys()))


class MemoryGit:
    """`orchconverge.ports.Git` over a `Store`; below ``trees`` alone are working trees of ours."""

    def __init__(self, store: Store, trees: Path, *, between: Callable[[str], None] = lambda where: None) -> None:
        self.store = store
        self.root = store.root
        self.common_dir = store.root / ".git"
        self._trees = trees
        self._between = between
        self.compare = MemoryComparison(self)

    # --- questions ---------------------------------------------------------------------------------------------------

    def identity(self) -> bool:
        return True

    def author(self) -> Mapping[str, str]:
        who = {"NAME": "orchconverge", "EMAIL": "orchconverge@example.org"}
        return {f"GIT_{kind}_{key}": text for kind in ("AUTHOR", "COMMITTER") for key, text in who.items()}

    def resolve(self, ref: str) -> Sha | None:
        store = self.store
        if ref == "HEAD":
            return store.head(store.places[self.root])
        if FULL.fullmatch(ref):
            return Sha(ref) if ref in store.commits else None
        if ref.startswith("refs/"):
            return store.refs.get(ref)
        found = store.refs.get(f"refs/heads/{ref}")
        if found is None and re.fullmatch(r"[0-9a-f]{7,39}", ref):
            found = next((sha for sha in store.commits if sha.startswith(ref)), None)
        return found

    def tree_of(self, commit: Sha) -> Sha:
        return self._commit(commit).tree

    def _commit(self, sha: Sha) -> Stored:
        if not FULL.fullmatch(sha):
            raise Refused(f"{sha!r} is not a full commit id")
        if sha not in self.store.commits:
            raise Failed(f"git: bad object {sha}")
        return self.store.commits[sha]

    def _place(self, path: Path) -> Tree:
        if path not in self.store.places:
            raise Failed(f"{path} is not a working tree of this repository")
        return self.store.places[path]

    def checkout(self, path: Path) -> Checkout:
        tree = self._place(path)
        dirty, untracked = self.store.dirt(tree)
        return Checkout(
            branch=tree.branch,
            head=self.store.head(tree),
            dirty=dirty,
            untracked=untracked,
            operation=tree.operation,
        )

    def checked_out_at(self, branch: str) -> Path | None:
        return self.store.holder(branch)

    def default_branch(self, remote: str) -> str | None:
        return next((name for name in ("main", "master") if self.resolve(f"refs/heads/{name}")), None)

    def remotes(self) -> Mapping[str, str]:
        return {name: f"/virtual/{name}" for name in self.store.pushed}

    def work(self, base: Sha, head: Sha) -> Work:
        tree = self._commit(head).tree
        self._commit(base)
        store = self.store
        known, reached = store.reach(base), store.reach(head)
        added = sorted(reached - known, key=lambda sha: -store.commits[sha].number)
        before, after = store.files(base), store.files(head)
        changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
        removed = {n: lost for n in changed if (lost := _lost(before.get(n, ""), after.get(n, "")))}
        return Work(
            base=base,
            head=head,
            tree=tree,
            descends=base in reached,
            commits=tuple(self._told(sha) for sha in added),
            changed=tuple(changed),
            removed_lines=removed,
        )

    def _told(self, sha: Sha) -> Commit:
        stored = self.store.commits[sha]
        who = f"{stored.author} <{stored.author}@example.org>"
        criteria = tuple(_trailers(stored.message, "Criterion"))
        return Commit(sha=sha, author=who, committer=who, subject=stored.message.split("\n")[0], criteria=criteria)

    def unmarked(self, branch: str, marker: str, *, since: Sha) -> frozenset[Sha]:
        foreign = set[Sha]()
        for sha, action in self.store.reflogs.get(f"refs/heads/{branch}", ()):
            if sha == since:
                break
            if not action.startswith(marker):
                foreign.add(sha)
        return frozenset(foreign)

    def landed(self, basin: str, *, since: Sha, head: Sha) -> tuple[Landed, ...]:
        before, found = self.store.reach(since), []
        for sha in self._line(head):
            message = self.store.commits[sha].message
            if sha in before:
                break
            if basin not in _trailers(message, "Orchconverge-Basin"):
                continue
            of, part = _trailers(message, "Orchconverge-Branch"), _trailers(message, "Orchconverge-Residue-Of")
            parent = self.store.commits[sha].parents[0]
            found.append(
                Landed(
                    commit=sha,
                    tree=self.store.commits[sha].tree,
                    branch=(*part, *of)[0],
                    part=bool(part),
                    criterion=next(iter(_trailers(message, "Orchconverge-Criterion")), None),
                    paths=self.changed(parent, sha),
                    reason=next(iter(_trailers(message, "Orchconverge-Reason")), ""),
                )
            )
        return tuple(found[::-1])

    def changed(self, old: Sha, new: Sha) -> tuple[str, ...]:
        self._commit(old), self._commit(new)
        before, after = self.store.files(old), self.store.files(new)
        return tuple(sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n)))

    def merges(self, base: Sha, head: Sha) -> bool | None:
        try:
            self._commit(base), self._commit(head)
        except Failed:
            return None
        return not self._merged(base, head)[1]

    def _merged(self, tip: Sha, head: Sha) -> tuple[Files, tuple[str, ...]]:
        """The files of a merge, and the paths in conflict."""
        store = self.store
        common = store.reach(tip) & store.reach(head)
        fork = max(common, key=lambda sha: store.commits[sha].number, default=None)
        return _three_way(store.files(fork) if fork is not None else {}, store.files(tip), store.files(head))

    def bundle(self, path: Path, base: Sha, branch: str) -> None:
        head = self.resolve(f"refs/heads/{branch}")
        if head is None or not self.work(base, head).commits:
            raise Failed("git: refusing to create an empty bundle")
        path.write_bytes(head.encode())

    def fingerprint(self) -> str:
        return hashlib.sha256(self.store.config.encode()).hexdigest()

    def fetch(self, remote: str, ref: str, name: str) -> Sha:
        if remote not in self.store.pushed:
            raise Refused(f"there is no remote {remote}")
        found = self.store.pushed[remote].get(ref.removeprefix("refs/heads/"))
        if found is None:
            raise Failed(f"git fetch: couldn't find remote ref {ref}")
        self.store.refs[f"refs/orchconverge/pulls/{name}"] = found
        return found

    def push(self, remote: str, sha: Sha, branch: str, *, over: Sha | None = None) -> tuple[bool, str]:
        if remote not in self.store.pushed:
            raise Refused(f"there is no remote {remote}")
        there = self.store.pushed[remote]
        if over is not None and there.get(branch) != over:
            return False, "[rejected] (stale info)"
        if branch in there and over is None and there[branch] not in self.store.reach(sha):
            return False, "[rejected] (non-fast-forward)"
        said = "[new branch]" if branch not in there else "[up to date]" if there[branch] == sha else "fast-forward"
        there[branch] = sha
        return True, said

    # --- branches and worktrees --------------------------------------------------------------------------------------

    def create_branch(self, branch: str, at: Sha) -> None:
        self._create(branch, at)

    def _create(self, branch: str, at: Sha) -> bool:
        if not BRANCH.fullmatch(branch) or ".." in branch or branch.endswith((".lock", ".")):
            raise Refused(f"{branch!r} cannot be the name of a branch")
        self._commit(at)
        standing = self.resolve(f"refs/heads/{branch}")
        if standing == at:
            return False
        if standing is not None:
            raise Refused(f"branch {branch} exists already, at {standing:.8}")
        names = [ref.removeprefix("refs/heads/") for ref in self.store.refs if ref.startswith("refs/heads/")]
        for other in names:
            if other.startswith(f"{branch}/") or branch.startswith(f"{other}/"):
                raise Refused(f"branch {branch} cannot exist beside branch {other}")
        self.store.move(f"refs/heads/{branch}", at, by="orchconverge", action="")
        return True

    def _ours(self, path: Path) -> Path:
        place = Path(os.path.normpath(path))
        if place == self._trees or not place.is_relative_to(self._trees):
            raise Refused(f"{path} is not inside {self._trees}: nothing is added or removed elsewhere")
        return place

    def add_worktree(self, path: Path, *, branch: str | None, at: Sha) -> None:
        place = self._ours(path)
        self._commit(at)
        there = self.store.places.get(place)
        if there is not None:
            if there.branch != branch or (branch is None and there.detached != at):
                raise Refused(f"{place} is a worktree already, with something else checked out")
            return
        if place.exists() and any(place.iterdir()):
            raise Refused(f"{place} exists and is not a worktree of this repository")
        if branch is not None:
            self._create(branch, at)
            elsewhere = self.store.holder(branch)
            if elsewhere is not None:
                raise Refused(f"branch {branch} is checked out at {elsewhere}")
        self._between("add_worktree")
        place.mkdir(parents=True, exist_ok=True)
        (place / ".git").touch()
        tree = Tree(branch=branch, head=at if branch is None else None, files={}, ours=True)
        self.store.places[place] = tree
        self.store.added += 1
        tree.number = self.store.added
        tree.files = dict(self.store.tracked(tree))

    def include(self, path: Path) -> tuple[str, ...]:
        tree, root = self._place(self._ours(path)), self.store.places[self.root]
        globs = root.files.get(".worktreeinclude", "").split()
        found = [n for n in self.store.dirt(root)[1] if any(fnmatchcase(n, g) for g in globs) and n not in tree.files]
        tree.files |= {name: root.files[name] for name in found}
        return tuple(found)

    def fill(self, path: Path) -> tuple[str, ...]:
        self._place(self._ours(path))
        return ()  # a tree here has no submodules

    def made(self, path: Path) -> str:
        return str(self._place(self._ours(path)).number)

    def nested(self, path: Path) -> tuple[str, ...]:
        return tuple(name for name in self.checkout(path).untracked if name.endswith("/"))

    def remove_worktree(self, path: Path) -> None:
        place = self._ours(path)
        if place in self.store.places:
            del self.store.places[place]
            (place / ".git").unlink()
            self._between("remove_worktree")
        elif place.exists() and any(place.iterdir()):
            raise Refused(f"{path} is not a linked worktree of this repository: it is left alone")
        if place.exists():
            place.rmdir()

    def keep(self, name: str, commit: Sha) -> None:
        self._commit(commit)
        self.store.move(f"refs/orchconverge/keep/{name}", commit, by="orchconverge")

    # --- commits -----------------------------------------------------------------------------------------------------

    def snapshot(self, path: Path, name: str) -> Sha | None:
        tree = self._place(path)
        if not any(self.store.dirt(tree)):
            return None
        head = self.store.head(tree)
        text = f"orchconverge: left uncommitted by {name}"
        made = self.store.make(tree.files, parents=() if head is None else (head,), author="orchconverge", message=text)
        self.keep(name, made)
        return made

    def commit_all(self, path: Path, message: str, *, marker: str, without: Sequence[str] = ()) -> Sha | None:
        tree = self._place(path)
        head, before = self.store.head(tree), self.store.tracked(tree)
        names = {n for part in self.store.dirt(tree) for n in part if n not in without and not n.endswith("/")}
        if not names:
            return None
        if tree.operation:
            raise Failed(f"git commit: a part cannot be committed in the middle of a {tree.operation}")
        files = {n: t for n, t in before.items() if n not in names}
        files |= {n: tree.files[n] for n in names if n in tree.files}
        made = self.store.make(files, parents=() if head is None else (head,), author="orchconverge", message=message)
        if tree.branch is None:
            tree.detached = made
        else:
            self.store.move(f"refs/heads/{tree.branch}", made, by="orchconverge", action=f"{marker}: {message}")
        return made

    def squash(
        self,
        path: Path,
        *,
        tip: Sha,
        head: Sha,
        base: Sha | None = None,
        commits: Sequence[Sha] = (),
        paths: Sequence[str] = (),
        patch: bytes = b"",
    ) -> Squash:
        self.remove_worktree(path)
        self.add_worktree(path, branch=None, at=tip)
        self._between("squash")
        store = self.store
        if patch:
            merged, conflicts = self._patched(store.files(tip), patch)
        elif paths and base is not None:
            old, there = store.files(base), store.files(head)
            theirs = {n: t for n, t in {**old, **there}.items() if (n in there if n in paths else n in old)}
            theirs |= {n: old[n] for n in old if n not in paths}
            merged, conflicts = _three_way(old, store.files(tip), theirs, patch=True)
        elif commits:
            merged, conflicts = store.files(tip), ()
            for commit in commits:
                old = store.files(store.commits[commit].parents[0])
                merged, conflicts = _three_way(old, merged, store.files(commit), patch=True)
                if conflicts:
                    break
        else:
            merged, conflicts = self._merged(tip, head)
        self.remove_worktree(path)
        return Squash(tree=None, conflicts=conflicts) if conflicts else Squash(tree=store.tree(merged))

    def patch(self, old: Sha, new: Sha, paths: Sequence[str]) -> bytes:
        before, after = self.store.files(old), self.store.files(new)
        return repr([(p, before.get(p), after.get(p)) for p in paths]).encode()

    def _patched(self, files: Files, patch: bytes) -> tuple[Files, tuple[str, ...]]:
        changes = ast.literal_eval(patch.decode())
        old = {**files, **{p: b for p, b, _ in changes if b is not None}}
        gone = {p for p, _, a in changes if a is None}
        new = {**{n: t for n, t in old.items() if n not in gone}, **{p: a for p, _, a in changes if a is not None}}
        return _three_way(old, files, new)

    def offer(self, basin: str, commit: Sha) -> None:
        self._commit(commit)
        self.store.move(f"refs/orchconverge/proposal/{basin}", commit, by="orchconverge")

    def commit_tree(self, tree: Sha, *, parent: Sha, message: str) -> Sha:
        self._commit(parent)
        if tree not in self.store.trees:
            raise Failed(f"git: {tree} is not a tree")
        return self.store.make(self.store.trees[tree], parents=(parent,), author="orchconverge", message=message)

    def advance(self, branch: str, *, new: Sha, old: Sha) -> bool:
        store, ref = self.store, f"refs/heads/{branch}"
        tip = self.resolve(ref)
        if tip != old or old == new:
            return tip == new
        if old not in store.reach(new):
            raise Refused(f"{new:.8} does not descend from {old:.8}: {branch} is never rewound")
        place = store.holder(branch)
        if place is not None:
            tree = store.places[place]
            dirty, untracked = store.dirt(tree)
            in_the_way = [name for name in untracked if name in store.files(new)]
            there = {name: text for name, text in tree.files.items() if name not in untracked or name in in_the_way}
            killed_before = (dirty or in_the_way) and there == store.files(new)
            if not killed_before:
                if tree.operation:
                    raise Refused(f"{branch} is in use at {place}, in the middle of a {tree.operation}")
                if dirty:
                    raise Refused(f"{place} has uncommitted changes: {dirty[0]}", hint="commit or stash them")
                if in_the_way:
                    raise Refused(f"{branch} cannot be moved to {new:.8}: {in_the_way[0]} would be overwritten")
                tree.files = {**store.files(new), **{name: tree.files[name] for name in untracked}}
                self._between("advance")
        store.move(ref, new, by="advance", action="orchconverge: graft")
        return True

    def commit_file(self, branch: str, path: str, text: str, message: str) -> Sha:
        parts = Path(path).parts
        if not parts or parts[0] == "/" or ".." in parts or ".git" in [part.lower() for part in parts]:
            raise Refused(f"{path} is not a path inside the repository")
        store, tip = self.store, self.resolve(f"refs/heads/{branch}")
        if tip is None:
            raise Refused(f"there is no branch {branch}")
        if store.files(tip).get(path) == text:
            return self._last(tip, path)
        place = store.holder(branch)
        if place is not None:
            tree = store.places[place]
            if tree.operation:
                raise Refused(f"{branch} is in use at {place}, in the middle of a {tree.operation}")
            if tree.files.get(path) not in (text, store.files(tip).get(path)):
                raise Refused(f"{path} in {place} has content that is not committed")
            tree.files[path] = text
        made = store.make({**store.files(tip), path: text}, parents=(tip,), author="orchconverge", message=message)
        store.move(f"refs/heads/{branch}", made, by="commit_file")
        return made

    def _last(self, tip: Sha, path: str) -> Sha:
        """The newest commit that changed a path."""
        for sha in self._line(tip):
            parents = self.store.commits[sha].parents
            if not parents or self.store.files(parents[0]).get(path) != self.store.files(sha).get(path):
                return sha
        return tip

    def _line(self, tip: Sha) -> Iterator[Sha]:
        at: Sha | None = tip
        while at is not None:
            yield at
            parents = self.store.commits[at].parents
            at = parents[0] if parents else None


def _three_way(old: Files, ours: Files, theirs: Files, *, patch: bool = False) -> tuple[Files, tuple[str, ...]]:
    """The files of a three-way merge, and the paths in conflict. A ``patch`` cannot delete what is gone already."""
    merged, conflicts = dict(ours), []
    for name in sorted(old.keys() | ours.keys() | theirs.keys()):
        was, here, there = old.get(name), ours.get(name), theirs.get(name)
        if there == was or (there == here and not (patch and there is None)):
            continue
        if here != was:
            conflicts.append(name)
        elif there is None:
            merged.pop(name, None)
        else:
            merged[name] = there
    return merged, tuple(conflicts)


class MemoryComparison:
    """`orchconverge.ports.Comparing` over a `MemoryGit`. Renames are not found, and two sides of one file conflict."""

    def __init__(self, git: MemoryGit) -> None:
        self._git = git

    def commits(self, heads: Mapping[str, Sha | None]) -> dict[str, Sha]:
        asked = {branch: (head, f"refs/orchconverge/keep/{branch}") for branch, head in heads.items()}
        found = {b: self._git.resolve(head or kept) or self._git.resolve(kept) for b, (head, kept) in asked.items()}
        return {branch: sha for branch, sha in found.items() if sha is not None}

    def fork(self, one: Sha, other: Sha) -> Sha | None:
        store = self._git.store
        common = store.reach(one) & store.reach(other)
        return max(common, key=lambda sha: store.commits[sha].number, default=None)

    def difference(self, old: Sha, new: Sha, *, patch: bool) -> Difference:
        work, store = self._git.work(old, new), self._git.store
        before, after = store.files(old), store.files(new)
        changes = [
            Change(
                kind="A" if path not in before else "D" if path not in after else "M",
                path=path,
                added=_lost(after.get(path, ""), before.get(path, "")),
                removed=work.removed_lines.get(path, 0),
            )
            for path in work.changed
        ]
        text = [
            "\n".join(difflib.unified_diff(before.get(p, "").splitlines(), after.get(p, "").splitlines(), p, p))
            for p in work.changed
        ]
        return Difference(changes=tuple(changes), patch="\n".join(text) if patch else "")

    def claims(self, ranges: Sequence[tuple[Sha, Sha]]) -> tuple[tuple[Claim, ...], ...]:
        return tuple(self._claims(base, head) for base, head in ranges)

    def _claims(self, base: Sha, head: Sha) -> tuple[Claim, ...]:
        before, after = self._git.store.files(base), self._git.store.files(head)
        found = []
        for path in self._git.work(base, head).changed:
            old, new = before.get(path), after.get(path)
            blob = "" if old is None else hashlib.sha1(old.encode()).hexdigest()
            found.append(Claim(path, blob, None if old is None or new is None else _changed(old, new)))
        return tuple(found)

    def merge_pairs(self, pairs: Sequence[tuple[Sha, Sha]]) -> tuple[Merge, ...]:
        found = []
        for one, other in pairs:
            if self.fork(one, other) is None:
                found.append(Merge(None))
                continue
            conflicts = self._git._merged(one, other)[1]
            found.append(Merge(not conflicts, conflicts))
        return tuple(found)

    def files(self, tree: Sha, paths: Sequence[str]) -> dict[str, bytes]:
        there = self._git.store.trees[tree]
        return {path: there[path].encode() for path in paths if path in there}

    def contents(self, pairs: Sequence[tuple[Sha, Sha]]) -> tuple[Mapping[str, tuple[Blob, Blob]], ...]:
        trees = self._git.store.trees
        return tuple(_contents(trees[one], trees[other]) for one, other in pairs)

    def contents_now(self, tree: Path, base: Sha) -> Mapping[str, tuple[Blob, Blob]]:
        store = self._git.store
        return _contents(store.files(base), store.places[tree].files)


def _contents(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[Blob, Blob]]:
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return {path: (_blob(before.get(path)), _blob(after.get(path))) for path in changed}


def _blob(text: str | None) -> Blob:
    return blob(None if text is None else text.encode())


def _changed(before: str, after: str) -> tuple[Lines, ...]:
    matched = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return tuple(Lines(start, end) for tag, start, end, *_ in matched.get_opcodes() if tag != "equal")


def _lost(before: str, after: str) -> int:
    """Lines of ``before`` that are no longer there."""
    old, new = before.splitlines(), after.splitlines()
    same = sum(block.size for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return len(old) - same


def _trailers(message: str, key: str) -> list[str]:
    """The values of a trailer in the last paragraph of a message, if that is made of trailers alone."""
    paragraphs = message.strip().split("\n\n")
    lines = paragraphs[-1].splitlines() if len(paragraphs) > 1 else []
    if not all(re.match(r"[A-Za-z-]+: ", line) for line in lines):
        return []
    return [line.partition(": ")[2].strip() for line in lines if line.startswith(f"{key}: ")]
