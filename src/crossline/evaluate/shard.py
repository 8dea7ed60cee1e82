"""One shard: its state, and the judging of one batch of routed parts. Pure: no Spark, no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from crossline.basics.models.missed import missed_scores
from crossline.basics.values import I64
from crossline.basics.wire import Arrays, WirePart
from crossline.evaluate.alerts.absence_hits import due_hits, origins_of
from crossline.evaluate.alerts.corrections import replayed_hits, with_triggers
from crossline.evaluate.alerts.hit_rows import window_hits
from crossline.evaluate.alerts.hits import Hit, JudgedRows, once
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.changes import by_cause, places_of
from crossline.evaluate.contexts import Contexts, waits
from crossline.evaluate.cross_key import CROSS_KEY, cross_key_figures
from crossline.evaluate.feature_rows import feature_rows_of, replayed_feature_rows
from crossline.evaluate.ingest_order import NO_FLOOR, chunk_floors, filters_in_time, follow, in_ingest_order, settled
from crossline.evaluate.kernels import Kernel, new_kernel, retraction_of
from crossline.evaluate.output import BoolMask, Position, Reported, ShardOutput, StoreDelta, StreamClocks
from crossline.ingest.route.facts import facts_from
from crossline.ingest.route.partitioner import on_array
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.plan.costs import UNMEASURED, Meter
from crossline.plan.state_stores import StateStore
from crossline.state.batch import ArrivalOrder, Cause, Hits, KeyedBatch, texts_of
from crossline.state.windows.emission.columns import lines_of

if TYPE_CHECKING:
    from crossline.evaluate.suppression.last_alerts import LastAlerts

MANY = 200_000  # records of a store; moving as many together takes some 20 ms


@dataclass(slots=True)
class ShardState:
    """The state of one shard: its stores, and the clock of each log of each stream.

    ``kept_from``: the oldest batch whose segment the state still needs. ``waiting``: stores that could not be seen to
    after the last batch (see ``evict``). ``emitted_to_ms``: by stream, the clock up to which due hits are emitted.
    ``contexts``: by store, records that wait for context. ``last_alerts``: by store, the last alerts of rules and keys.
    """

    stores: dict[str, Kernel] = field(default_factory=dict)
    log_clock: dict[str, dict[str, int]] = field(default_factory=dict)
    kept_from: int = 0
    waiting: set[str] = field(default_factory=set)
    emitted_to_ms: dict[str, int] = field(default_factory=dict)
    contexts: dict[str, Contexts] = field(default_factory=dict)
    last_alerts: dict[str, LastAlerts] = field(default_factory=dict)

    def horizon_ms(self, stream: str, bounds: Bounds) -> int | None:
        """The ingest time from which on records of ``stream`` still find their windows whole.

        None where nothing came yet. Every shard sees the clock of every log, so it is the same in all of them.
        """
        clocks = self.log_clock.get(stream)
        return max(clocks.values()) - bounds.partition_lag_ms if clocks else None

    def passed_ms(self, stream: str, bounds: Bounds) -> int | None:
        """The ingest time up to which the records of ``stream`` are complete: that of its slowest log.

        One that is further behind the others than they may be is not waited for. None where nothing came yet.
        """
        clocks, horizon_ms = self.log_clock.get(stream), self.horizon_ms(stream, bounds)
        return None if not clocks or horizon_ms is None else max(min(clocks.values()), horizon_ms)


def judge(
    plans: Sequence[StreamPlan],
    state: ShardState,
    parts: Sequence[WirePart],
    bounds: Bounds,
    meter: Meter = UNMEASURED,
) -> ShardOutput:
    """Judge one batch's ``parts`` of this shard; ``state`` is moved on in place, and ``meter`` by what it takes."""
    output = ShardOutput(meter=meter)
    for contexts in state.contexts.values():
        contexts.begin()
    follow(plans, state.log_clock)
    for plan in plans:
        mine = [p for p in parts if p[0]["stream"] == plan.stream and p[0]["state_store"] != CROSS_KEY]
        cross_key = [p for p in parts if p[0]["stream"] == plan.stream and p[0]["state_store"] == CROSS_KEY]
        if mine or cross_key:
            _judge_stream(plan, state, mine, bounds, output, cross_key)
    forget_unplanned(plans, state)
    output.retained = sum(store.records for store in state.stores.values())
    return output


def forget_unplanned(plans: Iterable[StreamPlan], state: ShardState) -> None:
    """Drop the stores that no plan of ``plans`` has."""
    planned = {state_store.state_store.name for plan in plans for state_store in plan.state_stores}
    for name in [name for name in state.stores if name not in planned]:
        del state.stores[name]
        state.contexts.pop(name, None)
        state.last_alerts.pop(name, None)


def _judge_stream(
    plan: StreamPlan,
    state: ShardState,
    parts: list[WirePart],
    bounds: Bounds,
    output: ShardOutput,
    cross_key: Sequence[WirePart] = (),
) -> None:
    accounting = plan.state_stores[plan.accounting_store].state_store.name
    newest_ms = None
    before_ms = state.horizon_ms(plan.stream, bounds)
    log_clock = state.log_clock.setdefault(plan.stream, {})
    floors = _clocks_of_hits([p for p in parts if "clocks" in p[0]], log_clock)
    floors |= chunk_floors([p for p in parts if "clocks" not in p[0] and p[0]["state_store"] == accounting], log_clock)
    logs = log_clock if plan.met is None else plan.met.judged_logs(log_clock)
    horizon_ms = state.horizon_ms(plan.stream, bounds)
    meter = output.meter
    meter.start()
    copies = None
    for number in sorted(range(len(plan.state_stores)), key=lambda number: number != plan.copies):
        store_plan = plan.state_stores[number]
        store = store_of(state, store_plan)
        mine = [settled(p, floors) for p in parts if p[0]["state_store"] == store_plan.state_store.name]
        if mine:
            state_store = store_plan.state_store
            reached = (
                bool(plan.carried) or plan.corrected or state_store.waits or state_store.reevaluate or waits(store_plan)
            )
            rows = in_ingest_order(mine, floors, reached=reached, of_hits=plan.depth > 1)
            rows, causes = by_cause(plan, store_plan, rows, mine)
            rows["place_ms"] = rows["ingest_ms"] if len(logs) > 1 else np.zeros_like(rows["ingest_ms"])
            if number == plan.accounting_store and len(rows["event_ms"]):
                newest_ms = int(rows["event_ms"].max())
            given = _StoreInput(rows, mine, causes, len(logs), cross_key, bounds.decides)
            judged, known = _judge_store(plan, store_plan, state, given, output)
            copies = known if number == plan.copies else copies
            if number == plan.accounting_store:
                _report(judged, known, copies, mine, output)
        elif cross_key and store_plan.cross_key_inputs and store_plan.state_store.reevaluate and store.records:
            _judge_cross_key_changes(plan, store_plan, store, cross_key, output, len(logs), decides=bounds.decides)
        meter.state_store(store_plan.state_store.name)
    passed_ms = state.passed_ms(plan.stream, bounds)
    if passed_ms is not None:
        output.hits += due_at(plan, state, passed_ms)
        meter.count_hits()
    if horizon_ms is not None:
        output.without_context |= _given_up(plan, state, before_ms, horizon_ms)
        evict([each.state_store for each in plan.state_stores], state, horizon_ms, meter)
    if log_clock and plan.reports and plan.clock is None:
        output.clocks[plan.stream] = StreamClocks(max(log_clock.values()), min(log_clock.values()), newest_ms)


def _given_up(plan: StreamPlan, state: ShardState, before_ms: int | None, horizon_ms: int) -> dict[str, int]:
    """How many records no context can come to in time for any more, by rule version.

    ``before_ms``: the horizon before this batch.
    """
    found: dict[str, int] = {}
    for store_plan in plan.state_stores:
        name, store = store_plan.state_store.name, state.stores[store_plan.state_store.name]
        if store_plan.state_store.reevaluate:
            found |= retraction_of(store).lacking(before_ms, horizon_ms, store_plan.state_store.lateness_ms)
        elif name in state.contexts:
            found |= state.contexts[name].give_up(store_plan, horizon_ms)
    return found


def due_at(plan: StreamPlan, state: ShardState, passed_ms: int) -> Iterator[Hit]:
    """The hits that are due once the stream's clock reaches ``passed_ms``."""
    state.emitted_to_ms[plan.stream] = passed_ms
    for store_plan in plan.state_stores:
        due = state.stores[store_plan.state_store.name].due(passed_ms)
        if due is not None:
            yield from due_hits(plan, store_plan, due)


def _clocks_of_hits(parts: Iterable[WirePart], log_clock: dict[str, int]) -> dict[tuple[str, int], int]:
    """Move the clocks of the logs that hits come from, which each part carries; a hit has its ingest time."""
    for meta, _ in parts:
        for log, clock_ms in meta["clocks"].items():
            log_clock[log] = max(clock_ms, log_clock.get(log, clock_ms))
    return {(meta["log"], meta["sequence"]): NO_FLOOR for meta, _ in parts}


def evict(state_stores: Sequence[StateStore], state: ShardState, horizon_ms: int, meter: Meter = UNMEASURED) -> None:
    """Drop records that are in no window of a record ingested at ``horizon_ms`` or later.

    Most stores drop some records at each call. Of those that compact, the ones of one stream fill alike, and moving the
    records of a large one together takes long. So where one has lost half at once, the others wait for the next batch,
    and then come first.
    """
    by_name = {state_store.name: state_store for state_store in state_stores}
    names = sorted(by_name, key=lambda name: name not in state.waiting)
    for number, name in enumerate(names):
        store = state.stores[name]
        state.waiting.discard(name)
        before, cutoff_ms = store.records, evict_before(by_name[name], horizon_ms)
        store.evict(cutoff_ms)
        if name in state.last_alerts:
            state.last_alerts[name].evict(cutoff_ms)
        meter.state_store(name)
        if 2 * store.records <= before >= MANY:
            state.waiting.update(names[number + 1 :])
            return


def store_of(state: ShardState, store_plan: StorePlan) -> Kernel:
    """The store of ``store_plan``, made on first use, with the plan's current lines."""
    name = store_plan.state_store.name
    store = state.stores.get(name)
    if store is None:
        store = state.stores[name] = new_kernel(store_plan.plan, reevaluates=store_plan.state_store.reevaluate)
    elif store.plan is not store_plan.plan and store.plan != store_plan.plan:
        store.replan(store_plan.plan)
    store.duplicate_ms = store_plan.state_store.known_ms
    return store


def evict_before(state_store: StateStore, horizon_ms: int) -> int:
    """Records with a clock at or before this are in no window of a record ingested at ``horizon_ms`` or later."""
    return horizon_ms - state_store.remembers_ms - 1


@dataclass(frozen=True, slots=True)
class _StoreInput:
    """The rows of a state store and their parts; ``causes``: those of hits that may be retracted; ``logs``: its logs.

    ``cross_key``: the cross-key figures for them. ``decides``: as of ``Bounds``.
    """

    rows: Arrays
    parts: list[WirePart]
    causes: Sequence[Cause]
    logs: int
    cross_key: Sequence[WirePart]
    decides: bool


def _judge_store(
    plan: StreamPlan, store_plan: StorePlan, state: ShardState, given: _StoreInput, output: ShardOutput
) -> tuple[JudgedRows, BoolMask]:
    """Judge the rows of a state store; with them, which of them it knows again."""
    rows, parts, meter = given.rows, given.parts, output.meter
    lateness, store = rows["ingest_ms"] - rows["event_ms"], state.stores[store_plan.state_store.name]
    chunks = sorted((m["log"], m["sequence"], m["partition"]) for m, _ in parts)
    reevaluates = store_plan.state_store.reevaluate
    batch = KeyedBatch(
        clock_ms=rows["event_ms"] if store_plan.state_store.time_mode == "event_time" else rows["ingest_ms"],
        ingest_ms=rows["ingest_ms"],
        lateness_ms=lateness,
        key_index=rows["key_index"],
        key_bytes=rows["key_bytes"],
        key_offsets=rows["key_offsets"],
        key_hash=rows["key_hash"],
        id_bytes=rows["id_bytes"],
        id_offsets=rows["id_offsets"],
        values=tuple(rows[f"value{i}"] for i in range(len(store_plan.state_store.columns))),
        filters=filters_in_time(store_plan, rows["bits"], lateness),
        texts=texts_of(rows, len(store_plan.state_store.columns)),
        facts=facts_from(plan.spec, store_plan.facts, rows, len(store_plan.state_store.columns)),
        arrival=places_of(plan, rows, chunks, given.causes) if reevaluates else None,
    )
    batch = _with_cross_key_figures(JudgedRows(plan, store_plan, batch, rows, chunks), given.cross_key, given.causes)
    if store_plan.state_store.waits:
        batch = replace(batch, reached_ms=rows["reached"], origins=origins_of(rows, chunks, batch.facts))
    judged = JudgedRows(plan, store_plan, batch, rows, chunks)
    hits = _judge_rows(judged, store, given.logs, output, decides=given.decides)
    meter.rows(store_plan, batch.filters)
    found = list(window_hits(judged, hits)) if len(hits) else []
    if given.decides and not reevaluates:
        from crossline.evaluate.suppression.changes import suppressions_of  # noqa: PLC0415 - where there is a policy
        from crossline.evaluate.suppression.last_alerts import LastAlerts  # noqa: PLC0415 - as above

        last_alerts = state.last_alerts.setdefault(store_plan.state_store.name, LastAlerts())
        output.add_suppressed(*suppressions_of(judged, hits, found, last_alerts, given.causes, given.logs))
    if given.causes and not reevaluates:
        found = list(with_triggers(judged, hits, found, given.causes, given.logs))
    output.hits += found if plan.depth == 1 else once(found)
    if waits(store_plan) and not reevaluates:
        contexts = state.contexts.setdefault(store_plan.state_store.name, Contexts())
        output.hits += contexts.judge(judged, hits.without, hits.duplicates)
    meter.count_hits()
    output.feature_queries += feature_rows_of(judged, hits.features)
    return judged, hits.duplicates


def _judge_cross_key_changes(
    plan: StreamPlan,
    store_plan: StorePlan,
    store: Kernel,
    cross_key: Sequence[WirePart],
    output: ShardOutput,
    logs: int,
    *,
    decides: bool,
) -> None:
    """Judge stored rows again whose cross-key figures changed, in a batch without rows of their own."""
    nothing = retraction_of(store).nothing()
    none: I64 = np.zeros(0, np.int64)
    batch = replace(nothing, arrival=ArrivalOrder(none, none, none.astype(np.int32), ()))
    judged = JudgedRows(plan, store_plan, batch, {"offsets": none, "chunk": none}, ())
    batch = _with_cross_key_figures(judged, cross_key, ())
    if batch.arrival is not None and batch.arrival.record_update:
        _judge_rows(replace(judged, batch=batch), store, logs, output, decides=decides)
        output.meter.count_hits()


def _with_cross_key_figures(judged: JudgedRows, cross_key: Sequence[WirePart], causes: Sequence[Cause]) -> KeyedBatch:
    """The rows with the figures of other keys that they are judged by, and with what others changed of these."""
    batch = judged.batch
    if not judged.store_plan.cross_key_inputs:
        return batch
    facts, record_update = cross_key_figures(judged, cross_key, causes)
    places = None if batch.arrival is None else replace(batch.arrival, record_update=record_update)
    return replace(batch, facts={**batch.facts, **facts}, arrival=places)


def _judge_rows(judged: JudgedRows, store: Kernel, logs: int, output: ShardOutput, *, decides: bool) -> Hits:
    """The kernel's hits on the rows; the hits and corrections of replayed rows go to ``output``."""
    plan, store_plan, meter = judged.plan, judged.store_plan, output.meter
    if store_plan.state_store.reevaluate:
        retraction_of(store).all_held = decides
    with missed_scores() as missed:
        hits = store.judge(judged.batch)
    meter.state_store(store_plan.state_store.name)
    output.fail(judged, hits, missed)
    if hits.replayed:
        output.hits += replayed_hits(plan, store_plan, hits.replayed, logs)
        if decides:
            from crossline.evaluate.suppression.changes import replayed_suppressions  # noqa: PLC0415 - as above

            output.suppression_changes += replayed_suppressions(plan, store_plan, hits.replayed, logs)
        output.feature_queries += replayed_feature_rows(plan, store_plan, hits.replayed, logs)
    delta = store.delta(judged.batch, hits)
    output.deltas.append(StoreDelta(store_plan.state_store.name, delta, lines_of(store_plan.plan.judging)))
    return hits


def _report(
    judged: JudgedRows, known: BoolMask, copies: BoolMask | None, parts: list[WirePart], output: ShardOutput
) -> None:
    """Report what only the accounting store knows: duplicates, late records, hits of rules without windows.

    ``copies``: which rows what looks at the ingest clock knows again.
    """
    plan, batch = judged.plan, judged.batch
    # A record that was hit is reported where it came in; a retraction plan has no such hits.
    if not plan.reports and not (plan.stateless and "stateless" in judged.rows):
        return
    duplicates = plan.lateness.duplicates(batch.ingest_ms, batch.lateness_ms, known, copies)
    if plan.clock is not None:
        if plan.stateless and "stateless" in judged.rows:
            output.hits += judged.stateless_hits(duplicates)
            output.very_late += judged.very_late_hits()
        return
    if not plan.reports:
        output.hits += once(judged.stateless_hits(duplicates))
        return
    output.records += len(batch.clock_ms)
    output.by_stream[plan.stream] = output.by_stream.get(plan.stream, 0) + len(batch.clock_ms)
    for number, table in enumerate(plan.tables if "missed" in judged.rows else ()):
        count = int((judged.rows["missed"][:, number // 8] >> (number % 8) & 1).sum())
        output.missed[table] = output.missed.get(table, 0) + count
    late_after_ms, allowed_ms = plan.lateness.at(batch.ingest_ms)
    output.reported.append(Reported(judged, duplicates, allowed_ms))
    late = batch.lateness_ms > late_after_ms
    for number, lateness in enumerate(plan.clocks.values()):
        late |= batch.ingest_ms - judged.rows[on_array(number)] > lateness.at(batch.ingest_ms)[0]
    partitions = [m["partition"] for m, _ in sorted(parts, key=lambda p: (p[0]["log"], p[0]["sequence"]))]
    for marked, target in ((duplicates, output.duplicates), (late & ~duplicates, output.late)):
        for row in np.flatnonzero(marked).tolist():
            target.append(_position(judged, partitions, row))
    if plan.stateless and "stateless" in judged.rows:
        output.meter.state_store(judged.store_plan.state_store.name)
        output.hits += judged.stateless_hits(duplicates)
        output.very_late += judged.very_late_hits()
        output.meter.count_hits()


def _position(judged: JudgedRows, partitions: list[str], row: int) -> Position:
    return Position(
        stream=judged.plan.stream,
        partition=partitions[int(judged.rows["chunk"][row])],
        offset=int(judged.rows["offsets"][row]),
        record_id=judged.record_id(row),
        event_ms=int(judged.rows["event_ms"][row]),
        ingest_ms=int(judged.batch.ingest_ms[row]),
    )
