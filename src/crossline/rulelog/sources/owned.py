"""A folder of rule files whose versions need approval: who owns a file is who published it, or approved by it.

Approvals lie in ``.approvals`` of the folder, a file each.
"""

from __future__ import annotations

import pwd
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from crossline.rulelog.content import FileContent
from crossline.rulelog.events import RuleEvent
from crossline.rulelog.sources.folder import Files, Folder
from crossline.rulelog.sources.keys import ApprovalKey
from crossline.rulelog.sources.origin import Origin
from crossline.rulelog.sources.principals import ALPHABET, name_problem
from crossline.rulelog.sources.review import APPROVAL

APPROVALS = ".approvals"
_BYTES_MAX = 4_096


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


class OwnedFolder:
    """Implements Publications over ``rules`` and the approvals beside them. ``owner``: who put a file there."""

    def __init__(self, rules: Folder, owner: Callable[[Path], str | None] = owner_of) -> None:
        self._rules = rules
        self._approvals = Folder(rules.path / APPROVALS, (".json",), _BYTES_MAX)
        self._owner = owner
        self._taken: tuple[Files, Files] = ({}, {})
        self._given: tuple[Files, Files] = ({}, {})

    def begin(self, events: Sequence[RuleEvent], *, first: bool) -> None:
        """A folder has all that it had."""

    def changed(self) -> Files | None:
        """Rule files by their names, approvals by what they are of."""
        rules, approvals = self._rules.changed(), self._approvals.changed()
        if rules is None and approvals is None:
            return None
        self._given = (self._taken[0] if rules is None else rules, self._taken[1] if approvals is None else approvals)
        owned = {name: self._of(content, self._rules.path / name) for name, content in self._given[0].items()}
        return {**owned, **dict(self._approval(name, content) for name, content in self._given[1].items())}

    def take(self, files: Files) -> None:
        """Note that what was given was dealt with; ``files`` is that, or less."""
        rules = {name: content for name, content in files.items() if not name.startswith(APPROVAL)}
        self._taken = (rules, self._given[1])
        self._rules.take(rules)
        self._approvals.take(self._given[1])

    @property
    def more(self) -> bool:
        """Never: what is there is given at once."""
        return False

    def close(self) -> None:
        """Nothing is held."""

    def _of(self, content: FileContent, path: Path) -> FileContent:
        owner = self._owner(path)
        problem = None if owner is None else name_problem(owner)
        if problem is None:
            return replace(content, origin=Origin(owner))
        return FileContent(b"", f"a file of a user who has {problem}", f"one of a user whose name has {ALPHABET}")

    def _approval(self, name: str, content: FileContent) -> tuple[str, FileContent]:
        """By what it is of, and who it is by; one that does not say what it is of keeps its name, and is refused."""
        signed = self._of(content, self._approvals.path / name)
        try:
            body = orjson.loads(content.data)
            key = ApprovalKey(str(body["rule_id"]), int(body["version"]), str(signed.origin.who))
        except (ValueError, TypeError, KeyError):
            return f"{APPROVAL}{name}", signed
        return str(key), signed
