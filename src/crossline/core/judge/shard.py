"""One shard: its state, and the judging of one batch of routed parts. Pure: no Spark, no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from crossline.core.alerts.hits import Hit, JudgedRows
from crossline.core.basics.values import I64, U8
from crossline.core.basics.wire import Arrays, WirePart
from crossline.core.judge.kernels import Kernel, new_kernel
from crossline.core.judge.order import NO_FLOOR, chunk_floors, in_ingest_order, settled
from crossline.core.plan.compile import LayerPlan, StreamPlan
from crossline.core.plan.layers import Layer
from crossline.core.route.facts import facts_from
from crossline.core.windows.batch import Delta, Failure, KeyedBatch, texts_of

BoolMask = npt.NDArray[np.bool_]

MANY = 200_000  # records of a store; moving as many together takes some 20 ms


@dataclass(frozen=True, slots=True)
class Position:
    """Where a record stands, for a dead letter or a late record: its bytes are fetched from the source."""

    stream: str
    partition: str
    offset: int
    record_id: str
    event_ms: int
    ingest_ms: int


@dataclass(slots=True)
class ShardState:
    """All that one shard keeps: a store per layer, and the clock of each log of each stream.

    ``kept_from``: the oldest batch whose segment the state still needs. ``waiting``: layers whose store could not be
    seen to after the last batch (see ``evict``).
    """

    stores: dict[str, Kernel] = field(default_factory=dict)
    log_clock: dict[str, dict[str, int]] = field(default_factory=dict)
    kept_from: int = 0
    waiting: set[str] = field(default_factory=set)

    def horizon_ms(self, stream: str, bounds: Bounds) -> int | None:
        """The ingest time from which on records of ``stream`` still find their windows whole.

        None where nothing came yet. Every shard sees the clock of every log, so it is the same in all of them.
        """
        clocks = self.log_clock.get(stream)
        return max(clocks.values()) - bounds.partition_lag_ms if clocks else None


@dataclass(frozen=True, slots=True)
class LayerDelta:
    """What a batch added to one layer's store; ``lines``: the rule versions that bits of ``delta.sat`` stand for."""

    layer: str
    delta: Delta
    lines: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StreamClocks:
    """How far a stream has been read, in epoch ms.

    ``ingest_ms``: the highest ingest time. ``slowest_ms``: where the log stands that is furthest behind. ``event_ms``:
    the highest event time in the batch, None where it brought no record.
    """

    ingest_ms: int
    slowest_ms: int
    event_ms: int | None = None

    def after(self, before: StreamClocks | None) -> StreamClocks:
        """These where ``before`` stood: of what only rises the higher, of the slowest log these."""
        if before is None:
            return self
        events = [ms for ms in (before.event_ms, self.event_ms) if ms is not None]
        return StreamClocks(max(before.ingest_ms, self.ingest_ms), self.slowest_ms, max(events, default=None))


@dataclass(frozen=True, slots=True)
class Reported:
    """All records of a stream that a batch has in this shard, each once, and which of them are copies.

    ``allowed_ms``: lateness past which every rule in force leaves a record unjudged; copies are not known beyond it.
    """

    judged: JudgedRows
    duplicates: BoolMask
    allowed_ms: I64 | int


@dataclass(slots=True)
class ShardOutput:
    """What one batch gave: hits, duplicates, late records, and the deltas to be persisted.

    ``failed``: how many records a model could not judge, by rule version and why.
    """

    hits: list[Hit] = field(default_factory=list)
    reported: list[Reported] = field(default_factory=list)
    duplicates: list[Position] = field(default_factory=list)
    late: list[Position] = field(default_factory=list)
    deltas: list[LayerDelta] = field(default_factory=list)
    records: int = 0
    retained: int = 0
    clocks: dict[str, StreamClocks] = field(default_factory=dict)
    failed: dict[Failure, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """``partition_lag_ms``: how far a record's ingest time may be behind the highest of its stream.

    Up to there it finds its windows whole, whether its log lags behind another or its sender's clock behind others.
    """

    partition_lag_ms: int = 0


def judge(plans: Sequence[StreamPlan], state: ShardState, parts: Sequence[WirePart], bounds: Bounds) -> ShardOutput:
    """Judge one batch's ``parts`` of this shard; ``state`` is moved on in place."""
    output = ShardOutput()
    for plan in plans:
        mine = [p for p in parts if p[0]["stream"] == plan.stream]
        if mine:
            _judge_stream(plan, state, mine, bounds, output)
    _forget_unplanned(plans, state)
    output.retained = sum(store.records for store in state.stores.values())
    return output


def _forget_unplanned(plans: Iterable[StreamPlan], state: ShardState) -> None:
    planned = {layer.layer.name for plan in plans for layer in plan.layers}
    for name in [name for name in state.stores if name not in planned]:
        del state.stores[name]


def _judge_stream(
    plan: StreamPlan, state: ShardState, parts: list[WirePart], bounds: Bounds, output: ShardOutput
) -> None:
    reporter = plan.layers[plan.reporter].layer.name
    newest_ms = None
    log_clock = state.log_clock.setdefault(plan.stream, {})
    if plan.of_hits:
        floors = _clocks_of_hits(parts, log_clock)
    else:
        floors = chunk_floors([p for p in parts if p[0]["layer"] == reporter], log_clock)
    horizon_ms = state.horizon_ms(plan.stream, bounds)
    for number, layer_plan in enumerate(plan.layers):
        store = store_of(state, layer_plan)
        mine = [settled(p, floors) for p in parts if p[0]["layer"] == layer_plan.layer.name]
        if mine:
            rows = in_ingest_order(mine, floors, reached=bool(plan.carried))
            rows["place_ms"] = rows["ingest_ms"] if len(log_clock) > 1 else np.zeros_like(rows["ingest_ms"])
            if number == plan.reporter and len(rows["event_ms"]):
                newest_ms = int(rows["event_ms"].max())
            _judge_layer(plan, layer_plan, store, rows, mine, output, reporter=number == plan.reporter)
    if horizon_ms is not None:
        evict([each.layer for each in plan.layers], state, horizon_ms)
    if log_clock and not plan.of_hits:
        output.clocks[plan.stream] = StreamClocks(max(log_clock.values()), min(log_clock.values()), newest_ms)


def _clocks_of_hits(parts: Iterable[WirePart], log_clock: dict[str, int]) -> dict[tuple[str, int], int]:
    """Each part tells how far the logs were read that hits come from; a hit has its ingest time."""
    for meta, _ in parts:
        for log, clock_ms in meta["clocks"].items():
            log_clock[log] = max(clock_ms, log_clock.get(log, clock_ms))
    return {(meta["log"], meta["sequence"]): NO_FLOOR for meta, _ in parts}


def evict(layers: Sequence[Layer], state: ShardState, horizon_ms: int) -> None:
    """Drop what is in no window of a record ingested at ``horizon_ms`` or later.

    Stores of one stream fill alike, and moving the records of a large one together takes long. So where that was done,
    the others wait for the next batch, and then come first.
    """
    by_name = {layer.name: layer for layer in layers}
    names = sorted(by_name, key=lambda name: name not in state.waiting)
    for number, name in enumerate(names):
        store = state.stores[name]
        state.waiting.discard(name)
        before = store.records
        store.evict(evict_before(by_name[name], horizon_ms))
        if store.records < before >= MANY:
            state.waiting.update(names[number + 1 :])
            return


def lines_of(layer_plan: LayerPlan) -> tuple[tuple[str, int], ...]:
    """The rule versions of a layer's lines, in order."""
    return tuple((line.rule_id, line.version) for line in layer_plan.kernel.judging)


def store_of(state: ShardState, layer_plan: LayerPlan) -> Kernel:
    """The layer's store, made when first met, and brought to the layer's present lines."""
    name = layer_plan.layer.name
    store = state.stores.get(name)
    if store is None:
        store = state.stores[name] = new_kernel(layer_plan.kernel)
    elif store.plan is not layer_plan.kernel and store.plan != layer_plan.kernel:
        store.replan(layer_plan.kernel)
    store.duplicate_ms = layer_plan.layer.known_ms
    return store


def evict_before(layer: Layer, horizon_ms: int) -> int:
    """Records with a clock at or before this are in no window of a record ingested at ``horizon_ms`` or later."""
    return horizon_ms - layer.remembers_ms - 1


def _judge_layer(
    plan: StreamPlan,
    layer_plan: LayerPlan,
    store: Kernel,
    rows: Arrays,
    parts: list[WirePart],
    output: ShardOutput,
    *,
    reporter: bool,
) -> None:
    lateness = rows["ingest_ms"] - rows["event_ms"]
    batch = KeyedBatch(
        clock_ms=rows["event_ms"] if layer_plan.layer.time_mode == "event_time" else rows["ingest_ms"],
        ingest_ms=rows["ingest_ms"],
        lateness_ms=lateness,
        key_index=rows["key_index"],
        key_bytes=rows["key_bytes"],
        key_offsets=rows["key_offsets"],
        key_hash=rows["key_hash"],
        id_bytes=rows["id_bytes"],
        id_offsets=rows["id_offsets"],
        values=tuple(rows[f"value{i}"] for i in range(len(layer_plan.layer.columns))),
        entries=entries_in_time(layer_plan, rows["bits"], lateness),
        texts=texts_of(rows, len(layer_plan.layer.columns)),
        facts=facts_from(plan.spec, layer_plan.facts, rows, len(layer_plan.layer.columns)),
    )
    hits = store.judge(batch)
    for failure, count in hits.failed.items():
        output.failed[failure] = output.failed.get(failure, 0) + count
    chunks = sorted((m["log"], m["sequence"], m["partition"]) for m, _ in parts)
    judged = JudgedRows(plan, layer_plan, batch, rows, chunks)
    if len(hits.line):
        output.hits += judged.window_hits(hits)
    output.deltas.append(LayerDelta(layer_plan.layer.name, store.delta(batch, hits), lines_of(layer_plan)))
    if reporter:
        _report(judged, hits.duplicates, parts, output)


def entries_in_time(layer_plan: LayerPlan, bits: U8, lateness_ms: I64) -> U8:
    """``bits`` without the entries that each record is too late for."""
    allowed: dict[int, list[int]] = {}
    for number, entry in enumerate(layer_plan.layer.entries):
        if entry.allowed_lateness_ms is not None:
            allowed.setdefault(entry.allowed_lateness_ms, []).append(number)
    timely = bits
    for bound, numbers in allowed.items():
        late = lateness_ms > bound
        if late.any():
            flags = np.zeros(bits.shape[1] * 8, dtype=np.bool_)
            flags[numbers] = True
            timely = timely.copy() if timely is bits else timely
            timely[late] &= ~np.packbits(flags, bitorder="little")
    return timely


def _report(judged: JudgedRows, known: BoolMask, parts: list[WirePart], output: ShardOutput) -> None:
    """What only the reporter says: duplicates, late records, and hits of rules that look at the record alone."""
    plan, batch = judged.plan, judged.batch
    if plan.of_hits:
        # A record that was hit is reported where it came in.
        if plan.stateless and "stateless" in judged.rows:
            output.hits += judged.stateless_hits(known)
        return
    output.records += len(batch.clock_ms)
    # Past what any rule takes, the store may have forgotten the first one or not: a copy is then late, like others.
    late_after_ms, allowed_ms = plan.lateness.at(batch.ingest_ms)
    duplicates = known & (batch.lateness_ms <= allowed_ms)
    output.reported.append(Reported(judged, duplicates, allowed_ms))
    late = batch.lateness_ms > late_after_ms
    partitions = [m["partition"] for m, _ in sorted(parts, key=lambda p: (p[0]["log"], p[0]["sequence"]))]
    for marked, target in ((duplicates, output.duplicates), (late & ~duplicates, output.late)):
        for row in np.flatnonzero(marked).tolist():
            target.append(_position(judged, partitions, row))
    if plan.stateless and "stateless" in judged.rows:
        output.hits += judged.stateless_hits(duplicates)


def _position(judged: JudgedRows, partitions: list[str], row: int) -> Position:
    return Position(
        stream=judged.plan.stream,
        partition=partitions[int(judged.rows["chunk"][row])],
        offset=int(judged.rows["offsets"][row]),
        record_id=judged.record_id(row),
        event_ms=int(judged.rows["event_ms"][row]),
        ingest_ms=int(judged.batch.ingest_ms[row]),
    )
