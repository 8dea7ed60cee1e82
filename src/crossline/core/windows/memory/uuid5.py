"""UUIDv5 of many names at once, as they are written: SHA-1 (FIPS 180-4) of a namespace and the name (RFC 9562)."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import numpy as np

from crossline.core.basics.values import I64, U8

UUID_CHARS = 36


def uuid5_many(namespace: uuid.UUID, prefix: bytes, names: U8, offsets: I64) -> Any:
    """uint8[n, 36]: the id of ``prefix`` and each of the names ``names[offsets[i]:offsets[i + 1]]``."""
    seed = hashlib.sha1(namespace.bytes + prefix, usedforsecurity=False)
    raw, ends = names.tobytes(), offsets.tolist()
    out = np.empty((len(ends) - 1, UUID_CHARS), np.uint8)
    for i in range(len(ends) - 1):
        state = seed.copy()
        state.update(raw[ends[i] : ends[i + 1]])
        out[i] = np.frombuffer(str(uuid.UUID(bytes=state.digest()[:16], version=5)).encode(), np.uint8)
    return out
