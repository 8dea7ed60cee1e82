"""Columns of a kernel's hits as Python has them, read for all hits together: a batch may have very many."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from crossline.basics.values import I64
from crossline.state.batch import Hits


def values_of(hits: Hits, which: I64) -> list[int | float]:
    """The values of the hits of these numbers."""
    given = (hits.is_int, hits.value_i, hits.value_up, hits.value_f)
    rows = zip(*(each[which].tolist() for each in given), strict=True)
    return [whole + (up << 64) if integral else real for integral, whole, up, real in rows]


def evidence_ids(hits: Hits, which: I64) -> list[list[str]]:
    """The ids of the records that the hits of these numbers rest on."""
    raw, offsets = hits.evidence_id_bytes.tobytes(), hits.evidence_id_offsets.tolist()
    text = raw.decode()
    same = len(text) == len(raw)
    ids = [text[a:b] if same else raw[a:b].decode() for a, b in pairwise(offsets)]
    first, end, of = hits.evidence_offsets[which], hits.evidence_offsets[which + 1], hits.evidence_of
    if of is None:
        return [ids[a:b] for a, b in zip(first.tolist(), end.tolist(), strict=True)]
    # Mostly the records of a window follow each other, and are a slice of all.
    some = np.append(of, 0)
    low, high = some[first], some[end - 1] + 1
    slices = (end > first) & (high - low == end - first)
    # The others are gathered together, and are slices of what was.
    lengths = np.where(slices, 0, end - first)
    until = np.cumsum(lengths)
    gathered = np.repeat(first - until + lengths, lengths) + np.arange(lengths.sum())
    others: list[str] = np.array(ids, np.object_)[of[gathered]].tolist()
    low, high = np.where(slices, low, until - lengths), np.where(slices, high, until)
    rows = zip(low.tolist(), high.tolist(), slices.tolist(), strict=True)
    return [ids[a:b] if is_slice else others[a:b] for a, b, is_slice in rows]
