"""Hits at records that waited in vain: what must be known of a record while it waits, and the hit in the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.streams.clocks import EVENT
from crossline.basics.wire import Arrays
from crossline.evaluate.alerts.hits import Hit
from crossline.evaluate.alerts.origins import origin_of, rests_on
from crossline.ingest.route.keys import key_values
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import DueHits

_FACT = "fact "


def origins_of(rows: Arrays, chunks: Sequence[tuple[str, int, str]], facts: Mapping[str, pa.Array]) -> pa.Table:
    """Where each of ``rows`` stands, and what others read of it; ``chunks``: log, sequence, partition of each chunk."""
    chunk = rows["chunk"]
    columns = {
        "place_ms": pa.array(rows["place_ms"]),
        "offset": pa.array(rows["offsets"]),
        "sequence": pa.array(np.array([sequence for _, sequence, _ in chunks], np.int64)[chunk]),
        "log": _named([log for log, _, _ in chunks], chunk),
        "partition": _named([partition for _, _, partition in chunks], chunk),
    }
    return pa.table(columns | {_FACT + name: values for name, values in facts.items()})


def _named(names: Sequence[str], numbers: Any) -> pa.DictionaryArray:
    """Names by their numbers, each kept once."""
    known = list(dict.fromkeys(names))
    places = np.array([known.index(name) for name in names], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(places[numbers]), pa.array(known, pa.string()))


def due_hits(plan: StreamPlan, store_plan: StorePlan, due: DueHits) -> Iterator[Hit]:
    """What is due, in its order. It is the hit of the version that was in force when its record came."""
    assert due.origins is not None  # noqa: S101 - they are given with every record that may wait
    origins = due.origins.to_pylist()
    keys, ids = _texts(*due.keys), _texts(*due.ids)
    columns = (due.line, due.moment_ms, due.clock_ms, due.ingest_ms, due.lateness_ms, due.until_ms, due.answered_ms)
    for i, (line, moment_ms, clock_ms, ingest_ms, lateness_ms, until_ms, answered_ms) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        origin = origins[i]
        version = next(each for each in store_plan.versions[line] if ingest_ms < each.effective_until_ms)
        record_ids, alerts = rests_on(plan, [ids[i].decode()])
        stream, log = origin_of(plan, origin["log"])
        yield Hit(
            version=version,
            place=(origin["place_ms"], stream, log, origin["sequence"], origin["offset"], origin["partition"]),
            key=key_values(plan.spec, store_plan.state_store.group_fields, keys[i]),
            record_id=record_ids[0],
            event_ms=ingest_ms - lateness_ms if plan.clock is None else origin[_FACT + EVENT],
            ingest_ms=ingest_ms,
            value=None if answered_ms < 0 else answered_ms - clock_ms,
            count=1,
            window_start_ms=clock_ms,
            window_end_ms=until_ms,
            record_ids=record_ids,
            fields={},
            records=None,
            rests_on=alerts,
            carried={name: origin.get(_FACT + name) for name in plan.carried.get(version.rule.rule_id, ())},
            reached_ms=moment_ms,
            known_ms=moment_ms,
        )


def _texts(data: Any, offsets: Any) -> list[bytes]:
    raw = data.tobytes()
    return [raw[a:b] for a, b in pairwise(offsets.tolist())]
