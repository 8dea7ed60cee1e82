"""The judging of one batch of one shard, from packed parts to outcome rows: where the shard's state is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson

from crossline.evaluate.alerts.alert import alerts_of
from crossline.evaluate.alerts.alert_json import alerts_text
from crossline.evaluate.alerts.hits import emission_order
from crossline.evaluate.derived_streams import derived
from crossline.evaluate.output import ShardOutput
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.route.part_codec import pack
from crossline.ingest.route.partitioner import Part
from crossline.plan.costs import version_name
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotSource
from crossline.runtime.stages.rows import OUT, READ, costs_row
from crossline.runtime.stages.spill import parts_of
from crossline.runtime.work.rows import Rows, StageRows
from crossline.runtime.work.stopwatch import Stopwatch, measuring
from crossline.runtime.work.task import Task

if TYPE_CHECKING:
    from crossline.io.kafka.transactions.decision_topic import DecisionTopic
    from crossline.runtime.state_log.cache import HeldShard, ShardCache


@dataclass(frozen=True, slots=True)
class ShardJudge:
    """The plan, the query and the batch for judging shards: plain values that are sent between processes.

    ``cache`` None: a batch job, whose state ends with it. ``depth``: of the plans that they are judged by; 0: they are
    shards of ids, and decided about. ``began_ms``: of the batch. ``topic``: where all decisions go.
    """

    source: SnapshotSource
    cache: ShardCache | None
    query_id: str
    batch_id: int
    depth: int = 1
    began_ms: int | None = None
    topic: DecisionTopic | None = None

    def shard(self, shard: int, blobs: Sequence[bytes | memoryview], watch: Stopwatch) -> StageRows:
        """Judge what the batch has for ``shard``; rows (stage, shard, kind, body) of what came of it."""
        snapshot = self.source.current()
        if self.cache is not None:
            known = self.cache.answer(snapshot, self.query_id, shard, self.batch_id, self.depth)
            if known is not None:
                return known
        if not self.depth:
            return self._decide(snapshot, shard, blobs, watch)
        watch.start()
        parts = list(parts_of(blobs, f"parts of batch {self.batch_id} for shard {shard}"))
        watch.lap("unpack")
        if self.cache is None:
            state = snapshot.new_state()
            output = judge(snapshot.plans_at(self.depth), state, parts, snapshot.judging, measuring())
            watch.lap("judge")
            return result_rows(snapshot, self.depth, shard, output, state)
        with self.cache.shard(snapshot, self.query_id, shard, self.batch_id, self.depth) as held:
            watch.lap("state")
            output = judge(snapshot.plans_at(self.depth), held.state, parts, snapshot.judging, measuring())
            rows = result_rows(snapshot, self.depth, shard, output, held.state) + _read(held)
            watch.lap("judge")
            held.commit(output.deltas, rows)
            watch.lap("log")
        return rows

    def _decide(
        self, snapshot: PlanSnapshot, shard: int, blobs: Sequence[bytes | memoryview], watch: Stopwatch
    ) -> StageRows:
        """The decisions of a shard of ids, and revisions of those of before."""
        from crossline.runtime.stages.decision_stage import decide_once, decide_shard  # noqa: PLC0415 - see result_rows
        from crossline.runtime.stages.decision_writer import DecisionWriter  # noqa: PLC0415 - as above

        writer = DecisionWriter(Task(self.query_id, self.batch_id, began_ms=self.began_ms), shard, self.topic)
        if snapshot.revises_ms is None:
            return decide_once(snapshot, writer, blobs, watch, time.time_ns() // 1_000_000)
        if self.cache is None:
            return decide_shard(snapshot, snapshot.new_state(), writer, blobs, watch)[0]
        with self.cache.shard(snapshot, self.query_id, shard, self.batch_id, self.depth) as held:
            rows, deltas = decide_shard(snapshot, held.state, writer, blobs, watch)
            rows += _read(held)
            held.commit(deltas, rows)
            watch.lap("log")
        return rows

    def drop_unused(self) -> None:
        """Shards that no task uses here any more: see ``ShardCache``."""
        if self.cache is not None:
            self.cache.drop_unused(self.query_id, self.batch_id, self.depth)


def _read(held: HeldShard) -> StageRows:
    """What had to be read of the shard's log, where anything had."""
    return [(OUT, 0, READ, orjson.dumps([held.read, held.read_bytes]))] if held.read else []


def result_rows(snapshot: PlanSnapshot, depth: int, shard: int, output: ShardOutput, state: ShardState) -> StageRows:
    """The rows of a batch of ``shard``: its outcome, which no stage reads, and hits for the rules that read them.

    Hits become alerts here, detected now.
    """
    output.meter.start()
    held = output.pop_hold_hits()
    alerts = alerts_of(snapshot.plans(), output.hits, time.time_ns() // 1_000_000) if output.hits else []
    rows: StageRows = [(OUT, 0, *row) for row in outcome_rows(output, alerts)]
    output.meter.count_hits(version_name(hit.version.rule.rule_id, hit.version.rule.version) for hit in output.hits)
    rows.append(costs_row(output.meter))
    if snapshot.deciding is not None:
        from crossline.runtime.stages.decision_stage import decision_input_rows  # noqa: PLC0415 - where there is a policy

        rows += decision_input_rows(snapshot, output, alerts, state.log_clock, held)
    if snapshot.feature_query:
        from crossline.runtime.stages.feature_table import feature_table_rows  # noqa: PLC0415 - most plans are none

        rows += [(OUT, 0, *row) for row in feature_table_rows(snapshot.plans(), output)]
    parts = derived(
        snapshot.plans(),
        depth,
        output.read,
        clocks=state.log_clock,
        shards=snapshot.shards,
        lists=snapshot.lists,
        feature_queries=output.feature_queries,
        own=shard,
    )
    return rows + part_rows(parts)


def part_rows(parts: Iterable[tuple[int, Part]]) -> StageRows:
    """Rows of ``parts``, each for the stage of its depth: one for each shard there."""
    return [(depth, shard, "parts", pack(mine)) for (depth, shard), mine in by_shard(parts).items()]


def by_shard(parts: Iterable[tuple[int, Part]]) -> dict[tuple[int, int], list[Part]]:
    """Parts by the stage of their depth, and by shard."""
    found: dict[tuple[int, int], list[Part]] = {}
    for depth, part in parts:
        found.setdefault((depth, part.shard), []).append(part)
    return found


def outcome_rows(output: ShardOutput, alerts: Sequence[Mapping[str, Any]]) -> Rows:
    """What came of a batch of a shard, as rows (kind, body); ``alerts``: of its hits."""
    rows: Rows = []
    if alerts:
        fired = [(*emission_order(hit), hit.version.rule.rule_id) for hit in output.hits]
        rows += [("alerts", alerts_text(alerts)), ("fired", orjson.dumps(fired))]
    for kind, positions in (("duplicates", output.duplicates), ("late", output.late)):
        if positions:
            rows.append((kind, orjson.dumps([asdict(p) for p in positions])))
    figures: dict[str, Any] = {"records": output.records, "clocks": output.clocks, "retained": output.retained}
    if output.by_stream:
        figures["by_stream"] = output.by_stream
    if output.failed:
        figures["failed"] = [[*failure, records] for failure, records in output.failed.items()]
    if output.without_context:
        figures["without_context"] = output.without_context
    if output.missed:
        figures["missed"] = output.missed
    rows.append(("figures", orjson.dumps(figures, option=orjson.OPT_SERIALIZE_NUMPY)))
    return rows
