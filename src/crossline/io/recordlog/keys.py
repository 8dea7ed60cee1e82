"""Keys of messages in topics; no client is loaded for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from crossline.basics.conditions.evaluation import lookup


def message_key(record: Mapping[str, Any], field: str) -> bytes | None:
    """The key of a record's message: its field as text, JSON where it is none; None where the record has it not."""
    found = lookup(record, field)
    if found is None:
        return None
    return found.encode() if isinstance(found, str) else orjson.dumps(found)
