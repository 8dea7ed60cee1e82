"""The keys of a control topic: what a message is about. Compaction keeps the last message of each.

``rule/ID/VERSION``: a version of a rule, its status included. ``list/FILE``: the content of a list.
``approval/ID/VERSION/WHO``: an approval of a version. ``figure/ID/VERSION``: a version of a shared figure.
``release/ID/MARK``: that a rule no longer holds a key, which has that mark. ``hold/ID``: a manual hold;
``hold/ID/release``: the end of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

WHO = "who"  # the header with the publisher
HOST = "host"  # and on which machine
AUTHOR = "author"  # who published what this message has under another status

FORMS = (
    "rule/ID/VERSION, approval/ID/VERSION/WHO, figure/ID/VERSION, release/ID/MARK, hold/ID, hold/ID/release or "
    "list/NAME.txt (.yaml, .yml, .json)"
)
KEY_MAX = 512
_RULE = re.compile(r"rule/(?P<id>[a-z0-9_.-]{1,64})/(?P<version>[1-9][0-9]{0,9})", re.ASCII)
_APPROVAL = re.compile(r"approval/(?P<id>[a-z0-9_.-]{1,64})/(?P<version>[1-9][0-9]{0,9})/(?P<who>[^\x00-\x1f\x7f]+)")
_FIGURE = re.compile(r"figure/(?P<id>[a-z0-9_.-]{1,64})/(?P<version>[1-9][0-9]{0,9})", re.ASCII)
_RELEASE = re.compile(r"release/(?P<id>[a-z0-9_.-]{1,64})/(?P<mark>[0-9a-f]{32})", re.ASCII)
_HOLD = re.compile(r"hold/(?P<id>[0-9a-f]{32})(?P<end>/release)?", re.ASCII)
_LIST = re.compile(r"list/(?P<file>[^/\x00-\x1f\x7f.][^/\x00-\x1f\x7f]*\.(txt|yaml|yml|json))")


@dataclass(frozen=True, slots=True)
class RuleKey:
    """A version of a rule."""

    rule_id: str
    version: int

    def __str__(self) -> str:
        """As in the topic."""
        return f"rule/{self.rule_id}/{self.version}"


@dataclass(frozen=True, slots=True)
class ApprovalKey:
    """Somebody's approval of a version."""

    rule_id: str
    version: int
    who: str

    def __str__(self) -> str:
        """As in the topic."""
        return f"approval/{self.rule_id}/{self.version}/{self.who}"


@dataclass(frozen=True, slots=True)
class ListKey:
    """A list, by the name of its file."""

    file: str

    def __str__(self) -> str:
        """As in the topic."""
        return f"list/{self.file}"


@dataclass(frozen=True, slots=True)
class FigureKey:
    """A version of a shared figure."""

    figure_id: str
    version: int

    def __str__(self) -> str:
        """As in the topic."""
        return f"figure/{self.figure_id}/{self.version}"


@dataclass(frozen=True, slots=True)
class ReleaseKey:
    """Somebody's release of a key that a rule holds."""

    rule_id: str
    mark: str

    def __str__(self) -> str:
        """As in the topic."""
        return f"release/{self.rule_id}/{self.mark}"


@dataclass(frozen=True, slots=True)
class HoldKey:
    """A manual hold; ``released``: its end."""

    hold_id: str
    released: bool = False

    def __str__(self) -> str:
        """As in the topic."""
        return f"hold/{self.hold_id}{'/release' if self.released else ''}"


Key = RuleKey | ApprovalKey | ListKey | FigureKey | ReleaseKey | HoldKey


def key_of(name: str) -> Key | None:
    """What ``name`` names; None where it is no key."""
    if len(name) > KEY_MAX:
        return None
    for form, made in _MADE:
        if found := form.fullmatch(name):
            return made(found)
    return None


_MADE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Key]], ...] = (
    (_RULE, lambda found: RuleKey(found["id"], int(found["version"]))),
    (_APPROVAL, lambda found: ApprovalKey(found["id"], int(found["version"]), found["who"])),
    (_FIGURE, lambda found: FigureKey(found["id"], int(found["version"]))),
    (_RELEASE, lambda found: ReleaseKey(found["id"], found["mark"])),
    (_HOLD, lambda found: HoldKey(found["id"], released=found["end"] is not None)),
    (_LIST, lambda found: ListKey(found["file"])),
)


def key_of_bytes(key: bytes | None) -> Key | None:
    """As ``key_of``, of what stands in a message."""
    try:
        return key_of(key.decode()) if key is not None and len(key) <= 4 * KEY_MAX else None
    except UnicodeDecodeError:
        return None
