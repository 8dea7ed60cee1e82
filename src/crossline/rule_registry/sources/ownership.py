"""A folder of rule files whose versions need approval: who owns a file is who published it, or approved by it.

Approvals lie in ``.approvals`` of the folder, a file each. The user who runs the pipeline may say that he wrote a file
in another one's name, as the decision API does: by a statement in ``.published``, of the name of the file and its
bytes. He could write the rule log itself, so that gives him no further right; statements of other users are ignored.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from crossline.basics.errors import PermanentError
from crossline.rule_registry.atomic_files import replace_file
from crossline.rule_registry.content import FileContent, content_in_folder
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.sources.folder import Files, Folder
from crossline.rule_registry.sources.keys import ApprovalKey
from crossline.rule_registry.sources.origin import Origin
from crossline.rule_registry.sources.principals import ALPHABET, name_problem
from crossline.rule_registry.sources.review import APPROVAL

APPROVALS = ".approvals"
STATEMENTS = ".published"
_BYTES_MAX = 4_096
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def owner_of(path: Path) -> str | None:
    """The user who owns what lies there; None where it is gone."""
    try:
        uid = path.stat().st_uid
    except OSError:
        return None
    return user_name(uid)


def user_name(uid: int) -> str:
    """The user's name, or the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def me() -> str:
    """The user of this process."""
    return user_name(os.geteuid())


@dataclass(frozen=True, slots=True)
class Statement:
    """In whose name a file was written. ``digest``: of its bytes; ``author``: whose version it stays."""

    name: str
    digest: str
    who: str
    author: str | None = None

    @property
    def file(self) -> str:
        """What it is called: another one for other bytes, so that none is lost before the file itself is replaced."""
        return f"{hashlib.sha256(self.name.encode()).hexdigest()[:24]}.{self.digest}.json"

    def to_bytes(self) -> bytes:
        """As it is written."""
        author = {} if self.author is None else {"author": self.author}
        return orjson.dumps({"name": self.name, "digest": self.digest, "who": self.who, **author})


class OwnedFolder:
    """Implements Publications over ``rules`` and the approvals beside them.

    Args:
        rules: The rule files.
        owner: Who put a file there.
        speaker: The user who may write in other names; None: no one.
    """

    def __init__(
        self, rules: Folder, owner: Callable[[Path], str | None] = owner_of, speaker: str | None = None
    ) -> None:
        # The rules first: who writes a file makes its statement before it.
        self._rules = rules
        self._approvals = Folder(rules.path / APPROVALS, (".json",), _BYTES_MAX)
        self._statements = Folder(rules.path / STATEMENTS, (".json",), _BYTES_MAX)
        self._owner = owner
        self._speaker = speaker
        self._loaded: tuple[Files, Files, Files] = ({}, {}, {})
        self._given: tuple[Files, Files, Files] = ({}, {}, {})

    def begin(self, events: Sequence[RuleEvent], *, first: bool) -> None:
        """A folder has all that it had."""

    def changed(self) -> Files | None:
        """Rule files by their names, approvals by what they are of."""
        found = self._rules.changed(), self._approvals.changed(), self._statements.changed()
        if all(each is None for each in found):
            return None
        rules, approvals, statements = (
            last if each is None else each for each, last in zip(found, self._loaded, strict=True)
        )
        self._given = rules, approvals, statements
        text = self._stated(statements)
        owned = {name: self._of(name, content, self._rules.path / name, text) for name, content in rules.items()}
        return {**owned, **dict(self._approval(name, content) for name, content in approvals.items())}

    def take(self, files: Files) -> None:
        """Note that what was given was dealt with; ``files`` is that, or less."""
        rules = {name: content for name, content in files.items() if not name.startswith(APPROVAL)}
        self._loaded = (rules, *self._given[1:])
        self._rules.take(rules)
        self._approvals.take(self._given[1])
        self._statements.take(self._given[2])

    @property
    def more(self) -> bool:
        """Never: what is there is given at once."""
        return False

    def close(self) -> None:
        """Nothing is held."""

    def _stated(self, statements: Files) -> Mapping[tuple[str, str], Statement]:
        """The statements of the speaker, by the file and its bytes."""
        mine = (
            statement_of(content)
            for name, content in statements.items()
            if self._speaker is not None and self._owner(self._statements.path / name) == self._speaker
        )
        return {(each.name, each.digest): each for each in mine if each is not None}

    def _of(
        self, name: str, content: FileContent, path: Path, body: Mapping[tuple[str, str], Statement]
    ) -> FileContent:
        owner = self._owner(path)
        statement = body.get((name, content.digest)) if owner == self._speaker else None
        origin = Origin(owner) if statement is None else Origin(statement.who, author=statement.author)
        for who in (origin.who, origin.author):
            if who is not None and (problem := name_problem(who)) is not None:
                return FileContent(
                    b"", f"a file of a user who has {problem}", f"one of a user whose name has {ALPHABET}"
                )
        return replace(content, origin=origin)

    def _approval(self, name: str, content: FileContent) -> tuple[str, FileContent]:
        """By what it is of, and who it is by; one that does not say what it is of keeps its name, and is refused."""
        signed = self._of(name, content, self._approvals.path / name, {})
        try:
            body = orjson.loads(content.data)
            if "who" in body:
                signed = self._in_a_name(signed, str(body["who"]))
            key = ApprovalKey(str(body["rule_id"]), int(body["version"]), str(signed.origin.who))
        except (ValueError, TypeError, KeyError):
            return f"{APPROVAL}{name}", signed
        return str(key), signed

    def _in_a_name(self, signed: FileContent, who: str) -> FileContent:
        """An approval that names its author: it counts only if the speaker wrote it."""
        owner = signed.origin.who
        if owner == self._speaker and name_problem(who) is None:
            return replace(signed, origin=Origin(who))
        if owner == who:
            return signed
        expected = f"one of its owner, {owner}, or a file of the user who runs the pipeline"
        return replace(signed, data=b"", error=f"an approval in the name of {who[:60]!a}", expected=expected)


def statement_of(content: FileContent) -> Statement | None:
    """What stands in a file of ``.published``; None where it is no statement."""
    try:
        body = orjson.loads(content.data)
        values = [body["name"], body["digest"], body["who"], body.get("author")]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if not all(isinstance(each, str) for each in values[:3]) or not isinstance(values[3], str | None):
        return None
    return Statement(*values)


def origins_in(folder: Folder) -> Mapping[str, Origin]:
    """Who published what stands in a folder, by its files, as a pipeline of this process's user reads it."""
    files = OwnedFolder(folder, speaker=me()).changed() or {}
    return {name: content.origin for name, content in files.items() if not name.startswith(APPROVAL)}


def state(folder: Path, statement: Statement, now: FileContent | None) -> None:
    """Say in whose name ``statement.name`` is about to be written; ``now``: what stands there.

    Raises PermanentError where that name is no principal's, or the folder cannot be written.
    """
    for who in (statement.who, statement.author):
        if who is not None and (problem := name_problem(who)) is not None:
            raise PermanentError(f"found a principal who has {problem}; expected one whose name has {ALPHABET}")
    beside = folder / STATEMENTS
    try:
        beside.mkdir(mode=0o755, exist_ok=True)
        there = beside.stat()
    except OSError as error:
        raise PermanentError(f"{beside} cannot be made: {error.strerror}") from None
    if there.st_uid != os.geteuid() or there.st_mode & _OTHERS_WRITE:
        raise PermanentError(
            f"found {beside} of {user_name(there.st_uid)}, with mode {stat.S_IMODE(there.st_mode):o}; expected a "
            f"folder into which {me()} alone may write: who takes a statement away would pass for another one's author"
        )
    file = beside / statement.file
    replace_file(file, statement.to_bytes(), content_in_folder(file, _BYTES_MAX))
    standing = None if now is None else replace(statement, digest=now.digest).file
    for each in beside.glob(f"{statement.file.partition('.')[0]}.*.json"):
        if each.name not in {statement.file, standing}:
            each.unlink(missing_ok=True)  # of bytes that stood there before
