"""The keys of a control topic: what a message is about. Compaction keeps the last message of each.

``rule/ID/VERSION``: a version of a rule, its status included. ``list/FILE``: the content of a list.
``approval/ID/VERSION/WHO``: that somebody approves of a version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WHO = "who"  # the header that says who published
HOST = "host"  # and on which machine
AUTHOR = "author"  # who published what this message has under another status

FORMS = "rule/ID/VERSION, approval/ID/VERSION/WHO or list/NAME.txt (.yaml, .yml, .json)"
KEY_MAX = 512
_RULE = re.compile(r"rule/(?P<id>[a-z0-9_.-]{1,64})/(?P<version>[1-9][0-9]{0,9})", re.ASCII)
_APPROVAL = re.compile(r"approval/(?P<id>[a-z0-9_.-]{1,64})/(?P<version>[1-9][0-9]{0,9})/(?P<who>[^\x00-\x1f\x7f]+)")
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


Key = RuleKey | ApprovalKey | ListKey


def key_of(name: str) -> Key | None:
    """What ``name`` names; None where it is no key."""
    if len(name) > KEY_MAX:
        return None
    if found := _RULE.fullmatch(name):
        return RuleKey(found["id"], int(found["version"]))
    if found := _APPROVAL.fullmatch(name):
        return ApprovalKey(found["id"], int(found["version"]), found["who"])
    if found := _LIST.fullmatch(name):
        return ListKey(found["file"])
    return None


def key_of_bytes(key: bytes | None) -> Key | None:
    """As ``key_of``, of what stands in a message."""
    try:
        return key_of(key.decode()) if key is not None and len(key) <= 4 * KEY_MAX else None
    except UnicodeDecodeError:
        return None
