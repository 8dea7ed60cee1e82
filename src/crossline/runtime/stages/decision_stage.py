"""The last stage where a policy is configured: the hits on each record, wherever they were judged, to its decision.

Judging knows a shard of keys, and the hits on one record come from as many shards as rules have keys. So what is
decided by travels to the shard of the record's id: the hits that count, and which records the accounting store found to
be copies; where every record is decided about, the records. A copy is no second record to decide about, also where a
rule of another key takes it for a new one.

With retraction, the inputs of decisions are kept as long as corrections may come, in shards of ids: their
states are those of depth 0. A correction that changes a record's decision makes a revision of it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import xxhash

from crossline.basics import wire
from crossline.basics.errors import SinkError
from crossline.basics.values import I64
from crossline.evaluate.alerts.current_alerts import RETRACTED
from crossline.evaluate.alerts.hits import Hit, emission_order
from crossline.evaluate.alerts.origins import origin_of
from crossline.evaluate.changes import cause_of
from crossline.evaluate.decision_memory import DecidedStore, Which
from crossline.evaluate.decisions.batch import Decided, Placed
from crossline.evaluate.decisions.blocks import RecordBlock, Table
from crossline.evaluate.decisions.decision import RulesInForce, decide
from crossline.evaluate.decisions.json_lines import DecisionLines, LineInputs, decided_lines, plain
from crossline.evaluate.decisions.revision import Known, Summaries, revise, revision_json
from crossline.evaluate.output import ShardOutput, StoreDelta
from crossline.evaluate.shard import ShardState, evict, store_of
from crossline.evaluate.suppression.change_columns import SuppressionChange
from crossline.evaluate.suppression.rows import SuppressedRows
from crossline.logs import get_logger
from crossline.plan.compose import known_later
from crossline.plan.lateness import LatenessInForce
from crossline.rules.policy.hits import DecidedRecord, hit_of
from crossline.rules.policy.policy import Deciding
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotSource
from crossline.runtime.stages.alert_holds import hold_changes
from crossline.runtime.stages.decision_input import DecisionInput, record_blocks, standing_blocks
from crossline.runtime.stages.decision_writer import DecisionWriter
from crossline.runtime.stages.rows import OUT, ArrowBatches, rows_of
from crossline.runtime.stages.suppression_lines import Line, suppression_lines
from crossline.runtime.work.rows import StageRows
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.work.task import Task

PAUSE_S, PAUSE_S_MAX = 0.2, 5.0

log = get_logger(__name__)

# The kinds of what goes to the stage.
_HITS, _RECORDS = "hits", "records"

# Judges, at a depth of plans, what a batch has for each shard; what comes of each of them.
Judge = Callable[[Task, int, Mapping[int, Sequence[memoryview]], Stopwatch], Iterator[StageRows]]


def decision_stage_number(snapshot: PlanSnapshot) -> int:
    """The number of the stage: after all that judge."""
    return snapshot.depth + 1


def decision_input_rows(
    snapshot: PlanSnapshot,
    output: ShardOutput,
    alerts: Sequence[Mapping[str, Any]],
    clocks: Mapping[str, Mapping[str, int]],
    held: Sequence[Hit] = (),
) -> StageRows:
    """What is decided by of what a shard judged; ``alerts``: of its hits, in their order; ``held``: hits of holds.

    A hit on hits is one on the record that they are about. Absences, and what rests on them, decide nothing.
    ``clocks``: by stream, where each of its logs stands.
    """
    at, (of_hits, blocks) = decision_stage_number(snapshot), decision_inputs(snapshot, output, alerts, clocks, held)
    rows: StageRows = [(at, shard, _HITS, orjson.dumps(body)) for shard, body in sorted(of_hits.items())]
    return rows + [(at, shard, _RECORDS, wire.encode(each.meta, each.arrays)) for shard, each in blocks]


def decision_inputs(
    snapshot: PlanSnapshot,
    output: ShardOutput,
    alerts: Sequence[Mapping[str, Any]],
    clocks: Mapping[str, Mapping[str, int]],
    held: Sequence[Hit] = (),
) -> tuple[Mapping[int, dict[str, Any]], list[tuple[int, RecordBlock]]]:
    """The same for a caller that decides in this process: changes of hits, by shard of ids, and blocks of records."""
    to: defaultdict[int, dict[str, Any]] = defaultdict(lambda: {"hits": [], "copies": []})
    lateness, later = {plan.stream: plan.lateness for plan in snapshot.plans()}, known_later(snapshot.plans())
    streams = next((plan.order for plan in snapshot.plans()), ())
    if snapshot.revises_ms is not None:
        for shard in range(snapshot.shards):
            to[shard] |= {"changes": [], "clocks": clocks}
    counted = partial(_lines, snapshot, lateness, streams)
    at_once = (each for each in _of_alerts(output.hits, alerts) if _at_once(each.hit, later))
    bound_ms = partial(_bound_ms, snapshot)
    standing_lines = (
        suppression_lines(columns, lateness, bound_ms, later, streams) for columns in output.suppression_changes
    )
    of_holds = counted(hold_changes(snapshot.rules, held))
    for record_id, lines, caused in chain(counted(at_once), *standing_lines, of_holds):
        mine = to[_shard(snapshot, record_id)]
        if caused is None:
            mine["hits"].append(lines)
        else:
            mine["changes"].append([*caused, *lines])
    for each in output.duplicates:
        to[_shard(snapshot, each.record_id)]["copies"].append([each.stream, each.partition, each.offset])
    blocks: list[tuple[int, RecordBlock]] = []
    for standing in output.suppressed:
        chosen = _decides(snapshot, standing, lateness, later)
        if chosen.any():
            blocks += standing_blocks(standing, chosen, snapshot.shards)
    if snapshot.deciding is not None and snapshot.deciding.every:
        for reported in output.reported:
            bound_ms = _bound_ms(snapshot, reported.allowed_ms)
            blocks += record_blocks(reported, bound_ms, snapshot.shards)
    return to, blocks


def _lines(
    snapshot: PlanSnapshot,
    lateness: Mapping[str, LatenessInForce],
    streams: Sequence[str],
    changes: Iterable[SuppressionChange],
) -> Iterator[Line]:
    """The texts of ``changes`` one by one, of those at records in time."""
    for change in changes:
        hit, stream = change.hit, change.hit.place[1]
        _, allowed_ms = lateness[stream].at(np.array([hit.ingest_ms]))
        if hit.ingest_ms - hit.event_ms > _bound_ms(snapshot, allowed_ms):
            continue
        record = DecidedRecord(stream, hit.record_id, hit.event_ms, hit.ingest_ms)
        line = [hit.place, record.to_json(), change.reason.to_json()]
        order = [emission_order(hit), cause_of(hit, streams).order]
        yield hit.record_id, line, None if change.because is None else [order, change.because, change.stands]


def _at_once(hit: Hit, later: Collection[str]) -> bool:
    """Whether it is not known only long after its record was decided about, as of the rules ``later``."""
    return hit.known_ms is None and hit.version.rule.rule_id not in later


def _of_alerts(hits: Iterable[Hit], alerts: Iterable[Mapping[str, Any]]) -> Iterator[SuppressionChange]:
    """The hits that count, as in their alerts."""
    for hit, alert in zip(hits, alerts, strict=True):
        counted = hit_of(alert)
        if counted is not None:
            stands = hit.correction is None or hit.correction.outcome != RETRACTED
            plainly = hit.correction is None and hit.cause is None
            yield SuppressionChange(hit, counted, stands, None if plainly else alert["alert_id"])


def _decides(
    snapshot: PlanSnapshot, standing: SuppressedRows, lateness: Mapping[str, LatenessInForce], later: Collection[str]
) -> npt.NDArray[np.bool_]:
    """Which of the reasons count: those at records in time, but for what may be known long after these."""
    judged, batch = standing.judged, standing.judged.batch
    # Of each record that of its own stream: a rule may judge hits of several.
    streams = [origin_of(judged.plan, log)[0] for log, _, _ in judged.chunks]
    chunk, allowed_ms = judged.rows["chunk"][standing.rows], np.zeros(len(standing.rows), np.int64)
    for stream in set(streams):
        mine = np.isin(chunk, [number for number, each in enumerate(streams) if each == stream])
        _, allowed_ms[mine] = lateness[stream].at(batch.ingest_ms[standing.rows[mine]])
    lateness_ms = batch.ingest_ms[standing.rows] - standing.judged.events_ms(standing.rows)
    in_time = lateness_ms <= _bound_ms(snapshot, allowed_ms)
    at_once = np.array([each.rule.rule_id not in later for each in standing.versions], np.bool_)
    chosen: npt.NDArray[np.bool_] = in_time[standing.reason_row] & at_once[standing.version]
    return chosen


def _bound_ms(snapshot: PlanSnapshot, allowed_ms: I64 | int) -> Any:
    """The lateness up to which a record is decided about: on time, and not past what every rule takes."""
    return np.minimum(allowed_ms, snapshot.defaults.watermark_delay_ms)


def _shard(snapshot: PlanSnapshot, record_id: str) -> int:
    return xxhash.xxh64_intdigest(record_id.encode()) % snapshot.shards


@dataclass(frozen=True, slots=True)
class DecideShards:
    """The hits on records to the records' decisions.

    ``judge``: decides where the states are: there decisions can be revised, and producers of the topic live.
    ``patient``: wait for a topic that takes nothing, else say so at once.
    """

    source: SnapshotSource
    at: int
    judge: Judge | None = None
    patient: bool = True
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        """The decisions of the records of this task's shards, and what is meant for others."""
        snapshot, watch = self.source.current(), Stopwatch()
        given: defaultdict[int, list[memoryview]] = defaultdict(list)
        if self.judge is not None:  # the log of each shard must have no gap
            given |= {shard: [] for shard in range(task.partition, snapshot.shards, task.partitions)}
        for batch in batches:
            meant, shard = batch.column(0).to_numpy() == self.at, batch.column(1).to_numpy()
            for row in meant.nonzero()[0].tolist():
                given[int(shard[row])].append(memoryview(batch.column(3)[row].as_buffer()))
            if not meant.all():
                yield batch.filter(pa.array(~meant))
        if self.judge is not None:
            for sent in self._judged(self.judge, task, given, watch):
                yield rows_of(sent)
        else:
            for number, bodies in sorted(given.items()):
                yield rows_of(decide_once(snapshot, DecisionWriter(task, number), bodies, watch, self.clock_ms()))
        yield rows_of([(OUT, 0, "spent", watch.to_json())])

    def _judged(
        self, judge: Judge, task: Task, given: Mapping[int, Sequence[memoryview]], watch: Stopwatch
    ) -> list[StageRows]:
        """Nobody can tell a task to stop waiting, but Spark ends it where the pipeline is stopped."""
        pause_s = PAUSE_S
        while True:
            try:
                return list(judge(task, 0, given, watch))
            except SinkError as error:
                if not self.patient:
                    raise
                log.warning("decisions cannot be written; holding the batch", batch_id=task.batch_id, error=str(error))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)


def decide_once(
    snapshot: PlanSnapshot, writer: DecisionWriter, bodies: Sequence[bytes | memoryview], watch: Stopwatch, now_ms: int
) -> StageRows:
    """What is decided of what a batch has for a shard of ids, where nothing is revised."""
    watch.start()
    given = DecisionInput.of(bodies)
    table, lines = given.table(snapshot), list[tuple[Table, DecisionLines]]()
    if table is not None:
        alone = _alone(table, given)
        for stream, numbers in _by_stream(table, alone).items():
            lines.append((table, decided_lines(table, numbers, stream, _made(snapshot, stream, now_ms))))
        rest = np.ones(len(table), np.bool_)
        rest[alone] = False
        given.take_one_by_one(table, np.flatnonzero(rest).tolist())
    decided = Decided(decisions_of(snapshot, given, now_ms), lines)
    watch.lap("decide")
    rows = writer.write(snapshot, decided)
    watch.lap("write")
    return rows


def _alone(table: Table, given: DecisionInput) -> I64:
    """The records of ``table`` that rest on no alert of their own, are no copies, and stand in JSON as they are."""
    others = np.zeros(len(table), np.bool_)
    for which in (*given.hits, *given.copies):
        number = table.find(which)
        if number is not None:
            others[number] = True
    chosen = np.flatnonzero(~others)
    return chosen[plain(table, chosen)]


def _by_stream(table: Table, numbers: I64) -> dict[str, I64]:
    of_chunk = [stream for stream, *_ in table.chunks]
    streams = sorted(set(of_chunk))
    if len(streams) == 1:
        return {streams[0]: numbers} if len(numbers) else {}
    rank = np.array([streams.index(stream) for stream in of_chunk])
    mine = rank[table.columns["chunk"][table.first[numbers]]]
    return {stream: numbers[mine == at] for at, stream in enumerate(streams) if (mine == at).any()}


def _made(snapshot: PlanSnapshot, stream: str, now_ms: int) -> LineInputs:
    """How the decisions on records of ``stream`` are made."""
    deciding, in_force = _deciding(snapshot), RulesInForce(snapshot.rules, stream)
    spans, more = np.array(in_force.edges, np.int64), _more(deciding)
    return LineInputs(partial(decide, deciding.policy), in_force.digest, spans, now_ms, deciding.policy.version, more)


def _deciding(snapshot: PlanSnapshot) -> Deciding:
    if snapshot.deciding is None:
        raise ValueError("there is nothing to decide by: the plan snapshot has no policy")
    return snapshot.deciding


def _more(deciding: Deciding) -> dict[str, Any]:
    return {} if deciding.sink_topic is None else {"sink_topic": deciding.sink_topic}


def decide_shard(
    snapshot: PlanSnapshot,
    state: ShardState,
    writer: DecisionWriter,
    bodies: Sequence[bytes | memoryview],
    watch: Stopwatch,
) -> tuple[StageRows, list[StoreDelta]]:
    """What is decided, and revised, of what a batch has for a shard of ids.

    ``state`` is moved on in place; what was added to it is returned too.
    """
    watch.start()
    given, now_ms = DecisionInput.of(bodies), time.time_ns() // 1_000_000
    table = given.table(snapshot)
    if table is not None:  # what may be revised is known one by one
        given.take_one_by_one(table, range(len(table)))
    decided = decisions_of(snapshot, given, now_ms)
    for stream, logs in given.clocks.items():
        known = state.log_clock.setdefault(stream, {})
        known |= {log: max(ms, known.get(log, ms)) for log, ms in logs.items()}
    deltas = []
    for plan in snapshot.kept_at(0):
        store = store_of(state, plan.state_stores[0])
        if not isinstance(store, DecidedStore):
            raise TypeError(f"{plan.stream}: found {type(store).__name__} where decided records are kept")
        revised, changed = _revised(snapshot, store, plan.stream, given, now_ms)
        decided += revised
        if changed:
            deltas.append(StoreDelta(plan.state_stores[0].state_store.name, store.delta_of(changed), ()))
        horizon_ms = state.horizon_ms(plan.stream, snapshot.bounds)
        if horizon_ms is not None:
            evict([plan.state_stores[0].state_store], state, horizon_ms)
    watch.lap("decide")
    rows = writer.write(snapshot, Decided(decided))
    watch.lap("write")
    return rows, deltas


def _revised(
    snapshot: PlanSnapshot, store: DecidedStore, stream: str, given: DecisionInput, now_ms: int
) -> tuple[list[Placed], list[Which]]:
    """The revisions of decisions on records of ``stream``, and the records of which something new is known."""
    deciding, in_force = _deciding(snapshot), RulesInForce(snapshot.rules, stream)
    changed: dict[Which, None] = {}
    for which, (_, record) in given.records.items():
        hits = {hit.reason_id: hit for hit in given.hits.get(which, ())}
        if which[0] == stream and (hits or which in given.copies):
            store.put(
                which, None if which in given.copies else Known(record, deciding.policy.version, hits), record.event_ms
            )
            changed[which] = None
    found, summaries = list[Placed](), Summaries(deciding.policy)
    # In the order in which the records that caused them came, whatever the order in which they are reported.
    mine = [each for each in given.changes if each[1][0] == stream]
    mine.sort(key=lambda each: (each[0][1], each[0][0], each[3].because))
    for (_, which), group in groupby(mine, key=lambda each: (each[0][1], each[1])):
        changes = list(group)
        order = changes[0][0][0][:6]
        record = changes[0][2]
        if which not in store.known:
            store.put(which, Known(record, deciding.policy.version), record.event_ms)
        known = store.known[which]
        revised = None if known is None else revise(summaries, known, [change for *_, change in changes])
        changed[which] = None
        if known is not None and revised is not None:
            revision = revision_json(known, *revised, in_force.digest(record.ingest_ms), now_ms)
            found.append(([*order, which[2], which[1]], {**revision, **_more(deciding)}))
    return found, list(changed)


def decisions_of(
    snapshot: PlanSnapshot, given: DecisionInput, decided_ms: int, known: dict[str, RulesInForce] | None = None
) -> list[Placed]:
    """The decision of each record, with its place. ``known``: by stream, what was made of the snapshot's rules."""
    deciding = _deciding(snapshot)
    rules: dict[str, RulesInForce] = {} if known is None else known
    found: list[Placed] = []
    for place, record, hits in given.decidable():
        in_force = rules.get(record.stream)
        if in_force is None:
            in_force = rules[record.stream] = RulesInForce(snapshot.rules, record.stream)
        decision = decide(deciding.policy, record, hits)
        body = decision.to_json(in_force.digest(record.ingest_ms), decided_ms)
        found.append((place, {**body, **_more(deciding)}))
    return found
