"""Changes of the hits of a rule with retraction, for the rules that read them: hits added and hits removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crossline.basics.streams.inputs import rule_of
from crossline.basics.values import I64
from crossline.basics.wire import Arrays, WirePart
from crossline.evaluate.alerts.hits import Hit, Trigger
from crossline.evaluate.alerts.origins import record_and_alert_of
from crossline.evaluate.ingest_order import take_rows
from crossline.ingest.route.plan_inputs import CAUSE, GONE
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.plan.stream_join import came_log
from crossline.state.batch import ArrivalOrder, Cause


@dataclass(frozen=True, slots=True)
class Changes:
    """``hits``, each with the number of its cause and whether it is retracted, in the form that parts carry."""

    hits: Sequence[tuple[Hit, int]]
    marks: Mapping[str, I64]
    causes: Sequence[Sequence[Any]]


def changes_of(hits: Sequence[Hit], order: Sequence[str]) -> Changes:
    """What ``hits`` and corrections change, in their order: of an amended one the old hit goes, and a new one comes.

    ``order``: see ``StreamPlan``.
    """
    events: list[tuple[Hit, bool, Cause]] = []
    for hit in hits:
        cause, before = cause_of(hit, order), hit.correction.before if hit.correction is not None else None
        if before is not None:
            events.append((before, True, cause))
        if hit.correction is None or hit.correction.outcome != "retracted":
            events.append((hit, False, cause))
    numbers: dict[Cause, int] = {}
    which = np.array([numbers.setdefault(cause, len(numbers)) for _, _, cause in events], np.int64)
    gone = np.array([is_gone for _, is_gone, _ in events], np.int64)
    lines = [[c.record_id, c.ingest_ms, c.reached_ms, *c.chunk, c.offset] for c in numbers]
    pairs = [(hit, int(number)) for (hit, _, _), number in zip(events, which, strict=True)]
    return Changes(pairs, {CAUSE: which, GONE: gone}, lines)


def cause_of(hit: Hit, order: Sequence[str]) -> Cause:
    """The record that triggered ``hit``, with the name of its log among those of all streams."""
    if hit.cause is not None:
        return named_cause(hit.cause, order)
    _, stream, log, sequence, offset, partition = hit.place
    chunk = (came_log(order, stream, log), sequence, partition)
    return Cause(hit.record_id, hit.ingest_ms, hit.reached_ms, chunk, offset)


def named_cause(trigger: Trigger, order: Sequence[str]) -> Cause:
    """The record that ``trigger`` is, in the same way."""
    _, stream, log, sequence, offset, partition = trigger.place
    chunk = (came_log(order, stream, log), sequence, partition)
    return replace(trigger.cause, chunk=chunk, offset=offset)


def by_cause(
    plan: StreamPlan, store_plan: StorePlan, rows: Arrays, parts: Sequence[WirePart]
) -> tuple[Arrays, list[Cause]]:
    """``rows`` of ``parts`` in the order in which their causes came; of one cause first what goes.

    The cause of each row is then its number among those returned, -1 where it is the record itself. Rows of one source
    whose records are never retracted stay as they are. A state store that judges nothing again is given what comes
    alone, in that order too: a hit that is emitted late was not there before, wherever batches are cut.
    """
    if not plan.corrected and (plan.met is None or not store_plan.state_store.reevaluate):
        return rows, []
    rows, causes = _sorted(plan, rows, parts, again=store_plan.state_store.reevaluate)
    return rows if store_plan.state_store.reevaluate else take_rows(rows, np.flatnonzero(rows[GONE] == 0)), causes


def _sorted(plan: StreamPlan, rows: Arrays, parts: Sequence[WirePart], *, again: bool) -> tuple[Arrays, list[Cause]]:
    """``again``: by what logs are called among causes; else streams are in the order in which the plan's rows are."""
    ordered = sorted(parts, key=lambda part: (part[0]["log"], part[0]["sequence"]))
    known = [[read_cause(each) for each in meta.get("causes", ())] for meta, _ in ordered]
    causes = sorted({cause for mine in known for cause in mine}, key=lambda cause: (cause.order, cause.record_id))
    of_row = np.full(len(rows["chunk"]), -1, np.int64)
    if plan.corrected:
        number, marked = {cause: at for at, cause in enumerate(causes)}, np.flatnonzero(rows[CAUSE] >= 0)
        pairs = zip(rows["chunk"][marked].tolist(), rows[CAUSE][marked].tolist(), strict=True)
        of_row[marked] = [number[known[chunk][at]] for chunk, at in pairs]
        rows = {**rows, CAUSE: of_row}
    own = [(_place_of(plan, plan.came(meta["log"]), again=again), meta["sequence"]) for meta, _ in ordered]
    of_causes = [(_place_of(plan, cause.chunk[0], again=again), cause.chunk[1]) for cause in causes]
    order = [rows["chunk"], *_in_order(rows, of_row, own, causes, of_causes)]
    if again:
        order[0] = 1 - rows[GONE] if plan.corrected else np.zeros_like(of_row)
    return take_rows(rows, np.lexsort(order)), causes


def _place_of(plan: StreamPlan, came: str, *, again: bool) -> str:
    """What puts the log that is called ``came`` among causes into the order of logs."""
    return came if again or plan.met is None else plan.met.arrival_log(*plan.from_came(came))


def _in_order(
    rows: Arrays,
    of_row: I64,
    own: Sequence[tuple[str, int]],
    causes: Sequence[Cause],
    of_causes: Sequence[tuple[str, int]],
) -> tuple[Any, Any, Any, Any]:
    """What puts rows in the order in which their causes came, the least first; ``own``: log and sequence by chunk."""
    rank = {log: at for at, log in enumerate(sorted({log for log, _ in (*own, *of_causes)}))}
    chunk, itself = rows["chunk"], of_row < 0

    def either(mine: Any, of_cause: Sequence[int]) -> Any:
        # A row that is its own cause has the number -1; the value that -1 selects is not used.
        return np.where(itself, mine, np.array([*of_cause, 0], np.int64)[of_row])

    return (
        either(rows["offsets"], [cause.offset for cause in causes]),
        either(np.array([sequence for _, sequence in own], np.int64)[chunk], [sequence for _, sequence in of_causes]),
        either(np.array([rank[log] for log, _ in own], np.int64)[chunk], [rank[log] for log, _ in of_causes]),
        either(rows["reached"], [cause.reached_ms for cause in causes]),
    )


def read_cause(fields: Sequence[Any]) -> Cause:
    """A cause in the form that parts carry."""
    record_id, ingest_ms, reached_ms, log, sequence, partition, offset = fields
    return Cause(record_id, ingest_ms, reached_ms, (log, sequence, partition), offset)


def places_of(
    plan: StreamPlan, rows: Arrays, chunks: Sequence[tuple[str, int, str]], causes: Sequence[Cause]
) -> ArrivalOrder:
    """Where ``rows`` of ``plan`` stand; ``causes``: those of rows that are hits and may be retracted."""
    places = ArrivalOrder(rows["reached"], rows["offsets"], rows["chunk"], chunks)
    if not plan.reports:
        came = {log: plan.came(log) for log, _, _ in chunks}
        shared = plan.met is None or any(rule_of(source) for source in plan.met.reading.judged)
        places = replace(places, came=came, named=lambda known: record_and_alert_of(plan, known)[0], shared=shared)
    if CAUSE not in rows:
        return places
    return replace(places, removes=rows[GONE].astype(np.bool_), cause=rows[CAUSE].astype(np.int32), causes=causes)
