"""Records laid over a state, and judged on it: by the pipeline's own stages, in this process, logged nowhere."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics.wire import WirePart
from crossline.evaluate.alerts.alert import alerts_of
from crossline.evaluate.alerts.alert_json import read_quickly
from crossline.evaluate.decisions.decision import RulesInForce
from crossline.evaluate.derived_streams import derived
from crossline.evaluate.entity.key_figures import CurrentFigure, Unanswered, figures_of_key
from crossline.evaluate.output import Position, ShardOutput
from crossline.evaluate.shard import ShardState, judge
from crossline.ingest.decode import decode_values
from crossline.ingest.route.partitioner import Chunk
from crossline.plan.compile import StreamPlan
from crossline.rules.policy.policy import Deciding
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.decision_input import DecisionInput
from crossline.runtime.stages.decision_stage import decision_inputs, decisions_of
from crossline.runtime.stages.stages import parts_of

# Behind all that a log has: what is laid over came last.
BEHIND = 1 << 52
KNOWN = "known already: the pipeline has a record of this id"
LATE = "came too late to be decided about: see watermark_delay and allowed_lateness"
UNDECIDED = "nothing is decided: the pipeline has no policy"


class Laid(NamedTuple):
    """A record that is laid over. ``wanted``: a request waits for its decision.

    A tuple, as ``JudgedRecord`` is: each new fork gets hundreds of them, and tuples are packed in a tenth of the time.
    """

    stream: str
    record_id: str
    raw: bytes
    ingest_ms: int
    wanted: bool = True


class JudgedRecord(NamedTuple):
    """What was decided about a record: ``decision`` as the pipeline writes it, or None, and ``why`` nothing was.

    ``figures`` and ``evidence``: of each rule that raised an alert, by its id. ``degraded``: parts, each with why.
    """

    decision: Mapping[str, Any] | None
    figures: Mapping[str, Mapping[str, Any]] = {}
    evidence: Mapping[str, Mapping[str, Any]] = {}
    degraded: tuple[tuple[str, str], ...] = ()
    why: str = ""


def overlay_snapshot(snapshot: PlanSnapshot) -> PlanSnapshot:
    """``snapshot`` as replicas judge by it: one shard with all keys, and a decision about each record, kept nowhere."""
    deciding = snapshot.deciding
    if deciding is not None:
        deciding = Deciding(deciding.policy, every=True, pipeline=deciding.pipeline)
    return replace(snapshot, shards=1, deciding=deciding)


class StateOverlay:
    """Judges records on ``states`` (by depth), which are moved on, in the order in which they are given.

    ``by_broker``: streams whose records have the ingest time at which they came; those of others have the highest event
    time of their log, as far as it was read. A record's own ingest time, where the stream has one, comes before both.
    """

    def __init__(self, snapshot: PlanSnapshot, states: dict[int, ShardState], by_broker: Iterable[str] = ()) -> None:
        self.snapshot = snapshot
        self.states = states
        self.laid = 0
        self._by_broker = frozenset(by_broker)
        self._plans = snapshot.plans()
        self._in_force: dict[str, RulesInForce] = {}
        self._depths = [(depth, snapshot.plans_at(depth)) for depth in range(1, snapshot.depth + 1)]

    def judge(self, records: Sequence[Laid]) -> list[JudgedRecord]:
        """The decisions about ``records``; none for records without a waiting request."""
        numbers: dict[tuple[str, int], int] = {}
        found: dict[int, JudgedRecord] = {}
        parts = self._taken_in(records, numbers, found)
        came = _Came() if any(each.wanted for each in records) else None
        for depth, plans in self._depths:
            self._judge_depth(depth, plans, parts, came)
        self.laid += len(records)
        if came is None:
            return []
        self._decide(came, numbers, found)
        nothing = JudgedRecord(None, why=UNDECIDED if self.snapshot.deciding is None else LATE)
        return [found.get(number, nothing) for number in range(len(records))]

    def figures(self, field: str, value: str) -> list[CurrentFigure | Unanswered]:
        """Those of a key as they are, with what is laid over; the states are of no use any more afterwards."""
        states = ((plans, self.states.get(depth) or ShardState()) for depth, plans in self._depths)
        return [each for plans, state in states for each in figures_of_key(plans, state, field, value)]

    def _taken_in(
        self, records: Sequence[Laid], numbers: dict[tuple[str, int], int], found: dict[int, JudgedRecord]
    ) -> defaultdict[int, list[WirePart]]:
        """The parts of ``records``, by depth; ``numbers``: of each record, by stream and offset."""
        by_stream: dict[str, list[int]] = {}
        for number, each in enumerate(records):
            by_stream.setdefault(each.stream, []).append(number)
        parts: defaultdict[int, list[WirePart]] = defaultdict(list)
        for stream, mine in by_stream.items():
            first, log = BEHIND + self.laid, self._log(stream)
            offsets = first + np.array(mine, np.int64)
            numbers |= {(stream, first + number): number for number in mine}
            came = np.array([records[number].ingest_ms for number in mine], np.int64)
            values = pa.array([records[number].raw for number in mine], pa.binary())
            ingest = came if stream in self._by_broker else None
            decoded = decode_values(self.snapshot.decoder(stream), values, log, offsets, ingest, known_ms=came)
            for letter in decoded.dead:
                found[numbers[stream, letter.offset]] = JudgedRecord(None, why=letter.detail)
            for depth, part in parts_of(self.snapshot, decoded.records, Chunk(log, first, log)):
                parts[depth].append((part.meta, part.arrays))
        return parts

    def _log(self, stream: str) -> str:
        """Of the logs of ``stream`` the one that was read farthest: what comes now comes behind all of them."""
        logs = self.states[1].log_clock.get(stream) if 1 in self.states else None
        return max(logs, key=lambda log: (logs[log], log)) if logs else stream

    def _judge_depth(
        self, depth: int, plans: Sequence[StreamPlan], parts: defaultdict[int, list[WirePart]], came: _Came | None
    ) -> None:
        """Judge what there is for a depth; hits go on to the depths above. ``came``: what is decided by is wanted."""
        snapshot, state, given = self.snapshot, self.states.get(depth), parts.pop(depth, [])
        if state is None:
            state = self.states[depth] = snapshot.new_state()
        if not given:
            return
        output = judge(plans, state, given, snapshot.judging)
        held = output.pop_hold_hits()
        if came is not None:
            alerts = alerts_of(self._plans, output.hits, 0) if output.hits else []
            came.take(output, alerts)
            if snapshot.deciding is not None:
                of_hits, blocks = decision_inputs(snapshot, output, alerts, state.log_clock, held)
                for values in of_hits.values():
                    came.given.take(orjson.loads(orjson.dumps(values)))  # as what travels is read
                came.given.blocks += [block for _, block in blocks]
        own = (state.log_clock, snapshot.shards, snapshot.lists, output.feature_queries)
        for above, part in derived(self._plans, depth, output.read, *own, own=0):
            parts[above].append((part.meta, part.arrays))

    def _decide(self, came: _Came, numbers: Mapping[tuple[str, int], int], found: dict[int, JudgedRecord]) -> None:
        """The decisions about records of which something is known, into ``found`` by their numbers."""
        for copy in came.copies:
            number = numbers.get((copy.stream, copy.offset))
            if number is not None:
                found[number] = JudgedRecord(None, why=KNOWN)
        if self.snapshot.deciding is None:
            return
        table = came.given.table(self.snapshot)
        if table is not None:
            came.given.take_one_by_one(table, range(len(table)))
        for place, decision in decisions_of(self.snapshot, came.given, time.time_ns() // 1_000_000, self._in_force):
            number = numbers.get((place[1], place[4]))
            if number is not None:
                figures, evidence = _said_of(decision, came.alerts)
                failed = tuple(came.failed.get((place[1], place[4]), {}).items())
                found[number] = JudgedRecord(decision, figures, evidence, failed)


@dataclass(slots=True)
class _Came:
    """The results of records at all depths, as far as a decision or an answer needs them.

    ``failed``: by stream and offset of a record the parts that could not judge it, each with why.
    """

    given: DecisionInput = field(default_factory=DecisionInput)
    alerts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    copies: list[Position] = field(default_factory=list)
    failed: defaultdict[tuple[str, int], dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def take(self, output: ShardOutput, alerts: Sequence[Mapping[str, Any]]) -> None:
        """That of one depth."""
        self.alerts |= {alert["alert_id"]: alert for alert in alerts if alert["corrects"] is None}
        self.copies += output.duplicates
        for each in output.unjudged:
            for record in each.records:
                self.failed[record][f"rule:{each.rule_id}"] = each.why


_FIGURE = ("value", "operator", "threshold", "window_start", "window_end")


def _said_of(
    decision: Mapping[str, Any], alerts: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """By rule id the figure of each reason that is an alert on this record, and what it is of."""
    figures: dict[str, dict[str, Any]] = {}
    evidence: dict[str, dict[str, Any]] = {}
    for reason in decision["reasons"]:
        alert = alerts.get(reason["alert_id"] or "")
        if alert is None or alert["record_id"] != decision["record_id"] or reason["rule_id"] in figures:
            continue
        # Whoever reads the answer, and the digest of its receipt, may know 64 bits alone.
        figures[reason["rule_id"]] = {name: read_quickly(alert[name]) for name in _FIGURE}
        shown = alert["evidence"]
        evidence[reason["rule_id"]] = {"record_ids": shown.get("record_ids", []), "count": shown.get("count", 0)}
    return figures, evidence
