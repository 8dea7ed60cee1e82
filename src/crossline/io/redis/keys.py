"""The keys of the Redis sink. Other programs read them, so they are as stable as the shape of an alert.

``P`` is the sink's ``prefix``.

==================================  =======  ======================================================================
key                                 type     what it holds
==================================  =======  ======================================================================
``P:alert:ALERT_ID``                string   the alert or correction as JSON, set once, and gone after ``known``
``P:alerts``                        stream   ``alert_id``, ``key``, ``alert`` (JSON), each once, the oldest let go of
``P:entity:KEY``                    hash     the entity's status: see ``STATUS_FIELDS``
``P:standing:KEY``                  hash     ALERT_ID -> see ``STANDING_FIELDS``, divided by ``|``
``P:due``                           zset     KEY of entities with a lesser action that outlasts the gravest; its end
``P:figure:RULE_ID:KEY``            string   the last value at which the rule fired, as JSON
``P:decision:STREAM:RECORD_ID``     string   the last word on a record as JSON: a decision, or its newest revision
==================================  =======  ======================================================================

``KEY`` is ``name=value`` of each field of an alert's key, in order, joined by commas; what is neither a letter, a digit
nor one of ``_.-~`` is percent-encoded, so that no value can make another entity's key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from crossline.evaluate.alerts.alert_json import json_bytes

# Of ``P:entity:KEY``: the gravest status that is in force, and whose it is. Gone once nothing is. ``status``: what was
# decided under the policy about the alert's record, and else the rule's ``action``; ``decision_id``: of that decision.
STATUS_FIELDS = ("status", "action", "score", "alert_id", "rule_id", "rule_version", "until_ms", "decision_id")
STANDING_FIELDS = (
    *("rank", "score", "until_ms", "action", "rule_id", "rule_version"),
    *("status", "decision_id", "policy_version", "revision"),
)
RANKS = {"allow": 0, "review": 1, "step_up": 2, "block": 3}


def entity(key: Mapping[str, Any]) -> str:
    """``KEY`` of an alert's key; empty where it has no fields."""
    return ",".join(f"{quote(str(name), safe='')}={_text(value)}" for name, value in key.items())


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json_bytes(value).decode()
    return quote(text, safe="", errors="surrogatepass")


def part(text: str) -> str:
    """A name as part of a key."""
    # Most names need no escape, and ``quote`` takes three times as long to see that.
    return text if _PLAIN(text) else quote(text, safe="", errors="surrogatepass")


def plain(raw: bytes) -> bool:
    """Whether names are parts of a key as they stand, of all of them end to end."""
    return _PLAIN_BYTES(raw) is not None


_PLAIN_BYTES = re.compile(rb"[A-Za-z0-9_.~-]*").fullmatch
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
