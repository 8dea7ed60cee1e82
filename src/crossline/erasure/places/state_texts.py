"""Texts in segments: byte strings end to end, with their offsets."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crossline.basics import wire
from crossline.erasure.rows import decoded
from crossline.erasure.subject import Subject, dumped, parsed

# An id of a row is that of a record, ``STREAM\\x1eID`` where rows are of several streams, ``ALERT\\x1fID`` for hits.
_OF_STREAM, _OF_ALERT = "\x1e", "\x1f"
_RULE = "rule:"
_STREAM_ENDS = re.compile(r"[+@(|]")
# Pairs of arrays: the texts, and where each ends.
_PAIRS = (("_bytes", "_offsets"), ("|text", "|ends"))
_KEYS = ("key", "crossed.key", "more.changed_key")


def texts_at(arrays: Mapping[str, Any], name: str) -> list[bytes]:
    """The texts of ``name``; none where there are none."""
    if f"{name}_offsets" not in arrays:
        return []
    return split(arrays[f"{name}_bytes"], arrays[f"{name}_offsets"])


def split(data: Any, offsets: Any) -> list[bytes]:
    """Byte strings that stand end to end."""
    raw = np.ascontiguousarray(data).tobytes()
    ends = offsets.tolist()
    return [raw[start:end] for start, end in itertools.pairwise(ends)]


def joined(texts: Sequence[bytes]) -> tuple[Any, Any]:
    """Inverse of ``split``."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(each) for each in texts], out=offsets[1:])
    return np.frombuffer(b"".join(texts), np.uint8), offsets


def stream_of(store: str) -> str:
    """The stream whose records a state store has: its name begins with it.

    >>> stream_of("payments+rates(account=owner)|3")
    'payments'
    """
    return _STREAM_ENDS.split(store, maxsplit=1)[0]


def fields_of(store: str) -> tuple[str, ...]:
    """The fields of the key of a state store, from its name.

    >>> fields_of("payments|event_time|account,merchant#2")
    ('account', 'merchant')
    """
    fields = store.rpartition("|")[2].rpartition("#")[0]
    return tuple(fields.split(",")) if fields else ()


def record_of(text: str, stream: str) -> tuple[str, str, str]:
    """What stands before the record id in the id of a row, its stream, and the record id."""
    head, mark, record_id = text.rpartition(_OF_ALERT)
    if not mark:
        head, mark, record_id = text.rpartition(_OF_STREAM)
    named = head.partition(_OF_STREAM)[0]
    return f"{head}{mark}", named if mark == _OF_STREAM and not named.startswith(_RULE) else stream, record_id


def ids_of(texts: Sequence[bytes], rows: Any, stream: str) -> Iterator[tuple[str, str]]:
    """The records of the chosen rows: stream and id."""
    for number in np.flatnonzero(rows).tolist():
        text = decoded(texts[number])
        if text is not None:
            yield record_of(text, stream)[1:]


def key_parts(key: bytes, fields: int) -> Iterator[tuple[int, str]]:
    """The values of a key of so many fields as text, each with the number of its field: see ``ingest/route/keys.py``.

    One of a single field is the text, or the text behind its length: both are given.
    """
    if fields == 1:
        text = decoded(key)
        if text is not None:
            yield 0, text
    at = number = 0
    while 0 <= at < len(key):
        colon = key.find(b":", at)
        if colon < 0 or not key[at:colon].isdigit():
            return
        end = colon + 1 + int(key[at:colon])
        text = decoded(key[colon + 1 : end])
        if end > len(key) or text is None:
            return
        if number < fields:
            yield number, text
        at, number = end + 1, number + 1


def scrubbed_texts(subject: Subject, arrays: wire.Arrays, stream: str) -> tuple[wire.Arrays, int]:
    """The arrays with pseudonyms in the place of texts that are traces; how many texts that are.

    A key stays: its hash is that of its text. Keys of the person are gone by then; one that only contains the value is
    another key.
    """
    found, count = dict(arrays), 0
    for name in arrays:
        for data, ends in _PAIRS:
            stem = name.removesuffix(ends)
            if stem == name or stem in _KEYS or f"{stem}{data}" not in arrays:
                continue
            texts = split(arrays[f"{stem}{data}"], arrays[name])
            after = [_text(subject, each, stream, is_id=stem.endswith("id")) for each in texts]
            changed = sum(a != b for a, b in zip(texts, after, strict=True))
            if changed:
                whole, offsets = joined(after)
                found[f"{stem}{data}"], found[name] = whole, offsets.astype(arrays[name].dtype)
                count += changed
    return found, count


def _text(subject: Subject, raw: bytes, stream: str, *, is_id: bool) -> bytes:
    text = decoded(raw)
    if text is None:
        return raw
    if is_id:
        head, of_stream, record_id = record_of(text, stream)
        return f"{head}{subject.pseudonym(record_id)}".encode() if subject.is_id(of_stream, record_id) else raw
    inner = parsed(text)
    if inner is not None:
        after = subject.scrub(inner, stream)
        return raw if after == inner else dumped(after).encode()
    if subject.is_id(None, text) or any(key.value == text for key in subject.keys):
        return subject.pseudonym(text).encode()
    return subject.scrub_text(text).encode()
