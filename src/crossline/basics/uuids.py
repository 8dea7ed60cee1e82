"""Ids that are a function of what they name (UUIDv5, RFC 9562), at a third of the cost of ``uuid.uuid5``.

Of many names at once without an object for each: SHA-1 as in FIPS 180-4, each step of it over columns.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import numpy as np

from crossline.basics.values import I64, U8

UUID_CHARS = 36
UUID_BYTES = 16
# Names of one number of blocks that are hashed one by one: 0.4 us each. As columns it is 1.2 of 700, 0.5 of 4,000.
FEW = 4_000
PIECE = 8_192  # names that are hashed at once: what is worked on then stays in the cache
_BLOCK = 64
_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
_ADDED = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)
_HEX = np.array([f"{byte:02x}".encode() for byte in range(256)], "S2").view(np.uint8).reshape(256, 2)
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def seeded(namespace: uuid.UUID) -> Any:
    """What ``uuid5_text`` begins with; it may be given a first part of the names (``copy``, ``update``)."""
    return hashlib.sha1(namespace.bytes, usedforsecurity=False)


def uuid5_text(seed: Any, name: str) -> str:
    """The id of ``name``; ``seed`` has hashed the namespace (and a first part) already."""
    state = seed.copy()
    state.update(name.encode())
    digits = state.hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:32]}"


def uuid5_many(namespace: uuid.UUID, prefix: bytes, names: U8, offsets: I64) -> U8:
    """uint8[n, 16]: the id of ``prefix`` and each of the names ``names[offsets[i]:offsets[i + 1]]``."""
    head, lengths = namespace.bytes + prefix, np.diff(offsets)
    blocks = (len(head) + lengths + 9 + _BLOCK - 1) // _BLOCK
    out = np.empty((len(lengths), UUID_BYTES), np.uint8)
    for count in np.unique(blocks).tolist():
        every = np.flatnonzero(blocks == count)
        for first in range(0, len(every), PIECE):
            mine = every[first : first + PIECE]
            out[mine] = _hashed(head, names, offsets[mine], lengths[mine], count)
    out[:, 6] = out[:, 6] & 0x0F | 0x50
    out[:, 8] = out[:, 8] & 0x3F | 0x80
    return out


def uuid_text(ids: U8) -> U8:
    """uint8[n, 36] of uint8[n, 16]: ids as they are written."""
    out = np.full((len(ids), UUID_CHARS), ord("-"), np.uint8)
    digits = _HEX[ids].reshape(len(ids), 2 * UUID_BYTES)
    for start, end, dashes in ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4)):
        out[:, start + dashes : end + dashes] = digits[:, start:end]
    return out


def _hashed(head: bytes, names: U8, starts: I64, lengths: I64, blocks: int) -> U8:
    """The first 16 bytes of the hash of ``head`` and each name, all of which take as many blocks."""
    if len(starts) < FEW:
        state, raw = hashlib.sha1(head, usedforsecurity=False), names.tobytes()
        digests = []
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            each = state.copy()
            each.update(raw[start : start + length])
            digests.append(each.digest()[:UUID_BYTES])
        return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, UUID_BYTES)
    text = np.zeros((len(starts), blocks * _BLOCK), np.uint8)
    text[:, : len(head)] = np.frombuffer(head, np.uint8)
    longest = int(lengths.max())
    within = np.arange(longest) < lengths[:, None]
    text[:, len(head) : len(head) + longest][within] = names[(starts[:, None] + np.arange(longest))[within]]
    text[np.arange(len(starts)), len(head) + lengths] = 0x80
    text[:, -8:] = ((len(head) + lengths) * 8).astype(">u8")[:, None].view(np.uint8)
    found: U8 = _sha1(text).astype(">u4").view(np.uint8).reshape(len(starts), 20)[:, :UUID_BYTES]
    return found


def _sha1(text: U8) -> Any:
    """uint32[n, 5]: the hash of each of n texts, padded to whole blocks (uint8[n, 64 x blocks])."""
    words = np.ascontiguousarray(text).view(">u4").astype(np.uint32).T.copy()
    state = [np.full(text.shape[0], start, np.uint32) for start in _START]
    for first in range(0, len(words), 16):
        schedule = list(words[first : first + 16])
        for t in range(16, 80):
            schedule.append(_turned(schedule[t - 3] ^ schedule[t - 8] ^ schedule[t - 14] ^ schedule[t - 16], 1))
        a, b, c, d, e = state
        for t in range(80):
            mixed = (d ^ (b & (c ^ d))) if t < 20 else ((b & c) | (d & (b | c))) if 40 <= t < 60 else b ^ c ^ d
            new = _turned(a, 5) + mixed + e + np.uint32(_ADDED[t // 20]) + schedule[t]
            a, b, c, d, e = new, a, _turned(b, 30), c, d
        state = [before + now for before, now in zip(state, (a, b, c, d, e), strict=True)]
    return np.stack(state, axis=1)


def _turned(values: Any, by: int) -> Any:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))
