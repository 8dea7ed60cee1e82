"""Identities by which sinks recognise a repeated item, in any batch."""

from __future__ import annotations

import hashlib

import orjson

from crossline.basics.deadletter import DeadLetter

_BYTES = 16


def id_bytes(text: str) -> bytes:
    """An id of any length as 16 bytes."""
    return hashlib.blake2b(text.encode(), digest_size=_BYTES).digest()


def dead_identity(
    stream: str, partition: str, offset: int, reason: str, record_id: str | None, raw: bytes | None
) -> bytes:
    """The 16-byte identity of a dead letter: reason, position and record.

    The position alone is not enough: a file or a topic may have been replaced by another of its name. The bytes
    count only where there is no record id, since those of a duplicate are read again later, and may be gone by then.
    """
    digest = hashlib.blake2b(orjson.dumps([stream, partition, offset, reason, record_id]), digest_size=_BYTES)
    if record_id is None:
        digest.update(raw or b"")
    return digest.digest()


def identity_of(letter: DeadLetter) -> bytes:
    """The identity of ``letter``."""
    return dead_identity(letter.stream, letter.partition, letter.offset, letter.reason, letter.record_id, letter.raw)
