"""Hashes of many byte strings at once: XXH64, the same in every run, and SipHash under a secret of the process.

XXH64 selects the shard of a key, and the place in a table of bytes that are compared anyway. Anybody can write
texts of one XXH64. So what is compared by its hash alone is hashed under a secret, which no sender of records knows.
"""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from crossline.basics.kernels.kernel import Kernel
from crossline.basics.values import I64, U8
from crossline.state.memory.access import inlined, jit, load_i64, load_u8, load_u32, store_64
from crossline.state.memory.bounds_check import WATCHES, Piece, watching
from crossline.state.memory.source_digest import digest

U64 = npt.NDArray[np.uint64]
FEW = 5  # offsets, of which a call of the kernel takes longer than the hashing
_WRONG = "offsets must ascend and stay within the data"

# The five primes of the published algorithm.
P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)
# The four words with which the published SipHash begins.
SIP_A = np.uint64(0x736F6D6570736575)
SIP_B = np.uint64(0x646F72616E646F6D)
SIP_C = np.uint64(0x6C7967656E657261)
SIP_D = np.uint64(0x7465646279746573)


@jit
def _rotl(x: Any, r: int) -> Any:
    return (x << np.uint64(r)) | (x >> np.uint64(64 - r))


@jit
def _round(acc: Any, word: int) -> Any:
    return _rotl(acc + np.uint64(word) * P2, 31) * P1


@jit
def _stripes(at: int, end: int, seed: Any) -> Any:
    """The four lanes over whole stripes of 32 bytes, merged."""
    a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
    while at + 32 <= end:
        a = _round(a, load_i64(at))
        b = _round(b, load_i64(at + 8))
        c = _round(c, load_i64(at + 16))
        d = _round(d, load_i64(at + 24))
        at += 32
    h = _rotl(a, 1) + _rotl(b, 7) + _rotl(c, 12) + _rotl(d, 18)
    for lane in (a, b, c, d):
        h = (h ^ (_rotl(lane * P2, 31) * P1)) * P1 + P4
    return h


@inlined
def xxh64(at: int, end: int, seed: Any) -> Any:
    """XXH64 of the bytes from address ``at`` to ``end``, for compiled code. ``seed`` is uint64."""
    length = end - at
    if length >= 32:
        h = _stripes(at, end, seed)
        at += length & ~31
    else:
        h = seed + P5
    h += np.uint64(length)
    while at + 8 <= end:
        h = _rotl(h ^ _round(np.uint64(0), load_i64(at)), 27) * P1 + P4
        at += 8
    if at + 4 <= end:
        h = _rotl(h ^ (np.uint64(load_u32(at)) * P1), 23) * P2 + P3
        at += 4
    while at < end:
        h = _rotl(h ^ (np.uint64(load_u8(at)) * P5), 11) * P1
        at += 1
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return h ^ (h >> np.uint64(32))


@jit
def _sip_round(a: Any, b: Any, c: Any, d: Any) -> Any:
    a += b
    c += d
    b, d = _rotl(b, 13) ^ a, _rotl(d, 16) ^ c
    a = _rotl(a, 32) + d
    c += b
    return a, _rotl(b, 17) ^ c, _rotl(c, 32), _rotl(d, 21) ^ a


@jit
def siphash(at: int, end: int, key: Any, key2: Any) -> Any:
    """SipHash-2-4 of the bytes from address ``at`` to ``end`` under a key of two uint64, for compiled code."""
    a, b, c, d = key ^ SIP_A, key2 ^ SIP_B, key ^ SIP_C, key2 ^ SIP_D
    last = np.uint64(end - at) << np.uint64(56)
    while at + 8 <= end:
        word = np.uint64(load_i64(at))
        d ^= word
        a, b, c, d = _sip_round(a, b, c, d)
        a, b, c, d = _sip_round(a, b, c, d)
        a ^= word
        at += 8
    for k in range(end - at):
        last |= np.uint64(load_u8(at + k)) << np.uint64(8 * k)
    d ^= last
    a, b, c, d = _sip_round(a, b, c, d)
    a, b, c, d = _sip_round(a, b, c, d)
    a ^= last
    c ^= np.uint64(0xFF)
    for _ in range(4):
        a, b, c, d = _sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


@cache
def _compiled() -> Any:
    def many(data: int, offsets: int, count: int, seed: Any, out: int) -> int:
        for i in range(count):
            h = xxh64(data + load_i64(offsets + 8 * i), data + load_i64(offsets + 8 * i + 8), seed)
            store_64(out + 8 * i, np.int64(h))
        return 0

    return Kernel(many, digest).of("int64", "int64", "int64", "uint64", "int64")


@cache
def _compiled_keyed() -> Any:
    def keyed(data: int, offsets: int, count: int, key: Any, key2: Any, out: int) -> int:
        for i in range(count):
            h = siphash(data + load_i64(offsets + 8 * i), data + load_i64(offsets + 8 * i + 8), key, key2)
            store_64(out + 8 * i, np.int64(h))
        return 0

    return Kernel(keyed, digest).of("int64", "int64", "int64", "uint64", "uint64", "int64")


@cache
def secret() -> tuple[int, int]:
    """Two words that this process drew by lot. No answer depends on them, and they are written nowhere."""
    return secrets.randbits(64), secrets.randbits(64)


def keyed_many(data: U8, offsets: I64, key: tuple[int, int] | None = None) -> I64:
    """SipHash-2-4 of every ``data[offsets[i]:offsets[i + 1]]`` under ``key`` (None: the process's secret), as int64.

    Raises:
        ValueError: offsets that descend or leave ``data``.
    """
    data, offsets = _checked(data, offsets)
    out = np.empty(len(offsets) - 1, np.int64)
    words = [np.uint64(word) for word in key or secret()]
    with watching(_pieces(data, offsets, out)) if WATCHES else nullcontext():
        _compiled_keyed()(data.ctypes.data, offsets.ctypes.data, len(out), *words, out.ctypes.data)
    return out


def xxh64_many(data: U8, offsets: I64, seed: int = 0) -> U64:
    """XXH64 of every ``data[offsets[i]:offsets[i + 1]]``, as uint64[len(offsets) - 1].

    Raises:
        ValueError: offsets that descend or leave ``data``.
    """
    if 0 < len(offsets) <= FEW:
        return _of_few(data, offsets.tolist(), seed)
    data, offsets = _checked(data, offsets)
    out: U64 = np.empty(len(offsets) - 1, np.uint64)
    with watching(_pieces(data, offsets, out)) if WATCHES else nullcontext():
        _compiled()(data.ctypes.data, offsets.ctypes.data, len(out), np.uint64(seed), out.ctypes.data)
    return out


def _of_few(data: U8, offsets: list[int], seed: int) -> U64:
    """The same for so few that a call of the kernel would take longer."""
    if offsets[0] < 0 or offsets[-1] > len(data) or any(end < start for start, end in pairwise(offsets)):
        raise ValueError(_WRONG)
    raw = data[offsets[0] : offsets[-1]].tobytes()
    spans = pairwise(each - offsets[0] for each in offsets)
    return np.array([xxhash.xxh64_intdigest(raw[start:end], seed) for start, end in spans], np.uint64)


def _pieces(*arrays: np.ndarray[Any, np.dtype[Any]]) -> list[Piece]:
    return [Piece("what is hashed", array.ctypes.data, array.nbytes) for array in arrays]


def _checked(data: U8, offsets: I64) -> tuple[U8, I64]:
    if len(offsets) == 0 or offsets[0] < 0 or offsets[-1] > len(data) or bool((offsets[1:] < offsets[:-1]).any()):
        raise ValueError(_WRONG)
    return np.require(data, np.uint8, ["C"]), np.require(offsets, np.int64, ["C"])
