"""Where rules came to hold without an alert, or ceased to, as the texts by which decisions are made and revised."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crossline.basics.values import I64
from crossline.evaluate.alerts.origins import Place, origin_of, record_and_alert_of
from crossline.evaluate.changes import named_cause
from crossline.evaluate.suppression.change_columns import SuppressionChanges
from crossline.plan.lateness import LatenessInForce
from crossline.rules.policy.hits import DecidedRecord, DecidingHit

# The id of the record; place, record and reason; and what goes before these of a change: its order, why, whether it
# stands. None: the record came so.
Line = tuple[str, list[Any], list[Any] | None]
_PlaceAndRecord = tuple[Place, dict[str, Any]]


def suppression_lines(
    changes: SuppressionChanges,
    lateness: Mapping[str, LatenessInForce],
    bound_ms: Any,
    later: Collection[str],
    streams: Sequence[str],
) -> Iterator[Line]:
    """The texts of ``changes``, but for those at late records and of rules that are known ``later``.

    ``bound_ms``: the lateness up to which a record is decided about, of what its stream allows.
    """
    judged, batch = changes.judged, changes.judged.batch
    chunks = [(*origin_of(judged.plan, log), sequence, partition) for log, sequence, partition in judged.chunks]
    mine = _chosen(changes, [stream for stream, *_ in chunks], lateness, bound_ms, later)
    rows = changes.row[mine]
    row, number = np.unique(rows, return_inverse=True)
    ids = judged.ids(row).to_pylist()
    known = ids if judged.plan.reports else [record_and_alert_of(judged.plan, each)[0] for each in ids]
    columns = (judged.rows[name][row].tolist() for name in ("chunk", "place_ms", "offsets"))
    times = judged.events_ms(row).tolist(), batch.ingest_ms[row].tolist()
    of_rows, made = list[_PlaceAndRecord](), dict[tuple[int, int], _PlaceAndRecord]()
    for record_id, chunk, place_ms, offset, event_ms, ingest_ms in zip(known, *columns, *times, strict=True):
        found = made.get((chunk, offset))
        if found is None:  # a record is in many replays
            stream, log, sequence, partition = chunks[chunk]
            record = DecidedRecord(stream, record_id, event_ms, ingest_ms)
            found = made[chunk, offset] = (place_ms, stream, log, sequence, offset, partition), record.to_json()
        of_rows.append(found)
    reasons = [DecidingHit.standing_of(each.rule).to_json() for each in changes.versions]
    triggers = [(list(each.order), named_cause(each, streams).order) for each in changes.triggers]
    under = batch.key_hash[batch.key_index[rows]]
    numbers = (changes.version, changes.alert, changes.trigger, changes.because, changes.stands)
    values = (number.tolist(), under.tolist(), *(each[mine].tolist() for each in numbers))
    for of, key_hash, version, alert, trigger, because, stands in zip(*values, strict=True):
        place, record = of_rows[of]
        reason = {**reasons[version], "alert_id": None if alert < 0 else changes.alerts[alert], "under": key_hash}
        line = [place, record, reason]
        if because < 0:
            yield record["record_id"], line, None
            continue
        own, cause = triggers[trigger]
        yield record["record_id"], line, [[[*own, *place[4:]], cause], changes.reasons[because], stands]


def _chosen(
    changes: SuppressionChanges,
    streams: Sequence[str],
    lateness: Mapping[str, LatenessInForce],
    bound_ms: Any,
    later: Collection[str],
) -> I64:
    """Those of records in time, and of rules of which all is known at once."""
    judged, batch = changes.judged, changes.judged.batch
    chunk, allowed_ms = judged.rows["chunk"][changes.row], np.zeros(len(changes), np.int64)
    for stream in set(streams):
        of_stream = np.isin(chunk, [number for number, each in enumerate(streams) if each == stream])
        _, allowed_ms[of_stream] = lateness[stream].at(batch.ingest_ms[changes.row[of_stream]])
    in_time = batch.ingest_ms[changes.row] - judged.events_ms(changes.row) <= bound_ms(allowed_ms)
    at_once = np.array([each.rule.rule_id not in later for each in changes.versions], np.bool_)
    chosen: I64 = np.flatnonzero(in_time & at_once[changes.version])
    return chosen
