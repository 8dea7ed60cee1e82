"""Identities of decisions, which are found by the start of their id through table ``delivered``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from crossline.basics.values import U8
from crossline.io.postgres.delivered import IDENTITY_BYTES, identity, identity_start

TABLE = "decisions"
UUID_CHARS = 36
_NONE = 255
_DASHES = [8, 13, 18, 23]
_DIGITS = [at for at in range(UUID_CHARS) if at not in _DASHES]
_VALUES = np.full(256, _NONE, np.uint8)
_VALUES[list(b"0123456789abcdef")] = np.arange(16)
_HALF = IDENTITY_BYTES // 2


def decision_identities(pipeline: str, stored: str, ids: Sequence[bytes]) -> list[bytes]:
    """The identity of each id: of a UUID as ``identity_of_decision`` of the database has it, else a digest.

    The first half of a UUID stays, so that its start finds it. The second one is combined with a digest of the
    pipeline, as it is ``stored``: pipelines may share a schema, and have decisions with one id.
    """
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    texts = np.flatnonzero(lengths == UUID_CHARS)
    raw = b"".join(ids if len(texts) == len(ids) else [ids[at] for at in texts.tolist()])
    values, right = _uuids(np.frombuffer(raw, np.uint8).reshape(-1, UUID_CHARS))
    values[:, _HALF:] ^= np.frombuffer(hashlib.sha256(stored.encode()).digest()[:_HALF], np.uint8)
    joined = values.tobytes()
    made = [joined[at : at + IDENTITY_BYTES] for at in range(0, len(joined), IDENTITY_BYTES)]
    if len(made) == len(ids) and right.all():
        return made
    start = identity_start(pipeline, TABLE)
    known = {at: each for at, each, fits in zip(texts.tolist(), made, right.tolist(), strict=True) if fits}
    return [known.get(at) or identity(start, (each.decode(errors="surrogatepass"),)) for at, each in enumerate(ids)]


def _uuids(texts: U8) -> tuple[U8, npt.NDArray[np.bool_]]:
    """uint8[n, 16] of uint8[n, 36], and which of the texts are UUIDs as they are written."""
    digits: U8 = _VALUES[texts[:, _DIGITS]]
    right = (digits != _NONE).all(axis=1) & (texts[:, _DASHES] == ord("-")).all(axis=1)
    values: U8 = np.left_shift(digits[:, 0::2], 4) | digits[:, 1::2] & 0x0F
    return values, right


def identity_range(start: str) -> tuple[str, str]:
    """The least and the greatest identity of decisions whose id begins with ``start``, which begins a UUID."""
    digits = start.replace("-", "")[: 2 * _HALF]
    return digits.ljust(2 * IDENTITY_BYTES, "0"), digits.ljust(2 * IDENTITY_BYTES, "f")


def begins_uuid(start: str) -> bool:
    """Whether ``start`` is the beginning of a UUID as it is written."""
    return len(start) <= UUID_CHARS and all(
        each == "-" if at in _DASHES else each in "0123456789abcdef" for at, each in enumerate(start)
    )
