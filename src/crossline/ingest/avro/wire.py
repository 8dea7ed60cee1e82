"""The registry's wire format: a byte 0, the number of the schema in four bytes, and the record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.values import I64

MAGIC = 0
HEADER_BYTES = 5


def schema_id(raw: bytes) -> int | None:
    """The number of the schema that a value names; None where it has not the form of one."""
    if len(raw) < HEADER_BYTES or raw[0] != MAGIC:
        return None
    return int.from_bytes(raw[1:HEADER_BYTES], "big", signed=True)


def schema_ids(values: pa.Array) -> list[int]:
    """The numbers of schemas that a binary array names, each once; none of what has not their form."""
    _, bounds, data = values.buffers()
    edges = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    buf = np.frombuffer(data or b"", np.uint8)
    starts: I64 = edges[:-1][np.diff(edges) >= HEADER_BYTES]
    starts = starts[buf[starts] == MAGIC]
    heads: Any = buf[starts[:, None] + np.arange(1, HEADER_BYTES)].copy()
    return [int(each) for each in np.unique(heads.view(">i4"))]
