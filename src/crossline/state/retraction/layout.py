"""The one declaration of what the table holds of each record: a column each, drawn in docs/kernel-memory.md.

The table makes, grows, cuts and measures its columns by it, and a look-up beyond the rows there are is reported by the
column's name. Besides these there are the ids, and columns that a plan or a batch names: values and facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from crossline.state.memory.declarations import I32, I64, U8, U64, Kind

BOOL = Kind("bool", 1, np.bool_)
Width = Literal["", "FILTER_BYTES", "LINE_BYTES"]


@dataclass(frozen=True, slots=True)
class Stored:
    """One column. ``width``: of how many items each row is, where it is not one."""

    name: str
    kind: Kind
    what: str
    width: Width = ""

    @property
    def dtype(self) -> Any:
        """Of its items."""
        return self.kind.dtype


# In the order in which a batch has them.
NUMBERS = (
    Stored("clock_ms", I64, "clock, in ms"),
    Stored("ingest_ms", I64, "ingest time, in ms"),
    Stored("lateness_ms", I64, "lateness, in ms"),
    Stored("reached_ms", I64, "the highest ingest time that its log had reached by it, in ms"),
    Stored("offset", I64, "its offset in the piece of its log"),
)
KEY = Stored("key", I32, "number of its key; -1: no lookup needs it any more")
CHUNK = Stored("chunk", I32, "number of the piece of its log")
LIVE = Stored("live", BOOL, "whether it counts; if not, it was retracted")
ROW_FILTERS = Stored("entries", U8, "bits of the entries it is in", "FILTER_BYTES")
ID_HASH = Stored("id_hash", U64, "XXH64 of its id")
BITS = (
    Stored("sat", U8, "bits of the lines that it satisfied", "LINE_BYTES"),
    Stored("emitted", U8, "bits of the lines with a cooldown that emitted at it", "LINE_BYTES"),
    Stored("told", U8, "bits of the predicates for which it was ever emitted as a hit", "LINE_BYTES"),
    Stored("lacks", U8, "bits of the lines for which it waits for a figure", "LINE_BYTES"),
    Stored("hit", U8, "bits of the lines of which it is a hit", "LINE_BYTES"),
)
COLUMNS = (*NUMBERS, KEY, CHUNK, LIVE, ROW_FILTERS, ID_HASH, *BITS)
