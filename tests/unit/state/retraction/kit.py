"""Rows for a retraction, with their places, and what it says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from tests.unit.state.windows.naive import Row, batch_of

from crossline.plan.spaces import KeySpacePlan
from crossline.state.batch import ArrivalOrder, Cause, KeyedBatch
from crossline.state.retraction.kernel import Reevaluation
from crossline.state.windows.store import KeySpaceState

LOG = ("log", 0, "p")


def retraction(plan: KeySpacePlan) -> Reevaluation:
    return Reevaluation(plan, KeySpaceState)


def placed(plan: KeySpacePlan, rows: Sequence[Row], first: int, removes: Sequence[bool] = ()) -> KeyedBatch:
    """``rows`` as a batch, the first of them at offset ``first``.

    ``removes``: which take a row back; what brings that about is another record.
    """
    batch = batch_of(plan, list(rows))
    offsets = np.arange(first, first + len(rows), dtype=np.int64)
    places = ArrivalOrder(
        reached_ms=batch.ingest_ms,
        offsets=offsets,
        chunk=np.zeros(len(rows), np.int32),
        chunks=[LOG],
        removes=np.array(removes, np.bool_),
        cause=np.array([at if back else -1 for at, back in enumerate(removes)], np.int32),
        causes=[
            Cause(f"of {row.id}", row.ingest_ms, row.ingest_ms, LOG, offset)
            for row, offset in zip(rows, offsets.tolist(), strict=True)
        ],
    )
    return replace(batch, arrival=places)


def variants(again: Any) -> list[tuple[str | None, list[str], list[tuple[str, int]]]]:
    """Of what was judged again each variant: its cause, its rows by their ids, and its hits as (record, value)."""
    ends = again.rows.id_offsets.tolist()
    ids = [again.rows.id_bytes[a:b].tobytes().decode() for a, b in pairwise(ends)]
    found = []
    for number, cause in enumerate(again.causes):
        rows = np.flatnonzero(again.replay == number).tolist()
        at = zip(again.hits.row.tolist(), again.hits.value_f.tolist(), strict=True)
        hits = [(ids[row], value) for row, value in at if row in rows]
        found.append((cause.record_id if isinstance(cause, Cause) else None, [ids[row] for row in rows], hits))
    return found
