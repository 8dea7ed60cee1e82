"""A batch's outcome rows, collected by the driver and made into a delivery."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from crossline.basics.deadletter import DeadLetter
from crossline.evaluate.alerts.alert_json import alert_lines, alerts_text, read_alert, read_alerts
from crossline.evaluate.alerts.alert_lines import AlertLines
from crossline.evaluate.output import StreamClocks
from crossline.ingest.route.part_codec import dead_from_json
from crossline.io.sinks.delivery import Delivery, LateRecord
from crossline.logs import get_logger
from crossline.plan.costs import Meter
from crossline.runtime.stages.rows import COSTS, DECIDED, DECISIONS, FEATURE_ROWS, READ
from crossline.runtime.stages.spill import body_of
from crossline.runtime.work.stopwatch import Spent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from crossline.evaluate.decisions.batch import Placed
    from crossline.runtime.sources.plan_source import FetchRaw

FETCH_S = 5.0  # for the bytes of all late records and duplicates of a batch together
NOT_IN_TIME = "; its bytes could not be fetched in time"

Position = dict[str, Any]
# By stream and partition: bytes by offset, and whether time was up before all were there.
Raws = dict[tuple[str, str], tuple[dict[int, bytes], bool]]

log = get_logger(__name__)


@dataclass(slots=True)
class Outcome:
    """Alerts (JSON values), dead letters, late records, figures of one batch, and how far streams have been read.

    ``unread``: alerts that nobody has looked into, in the place of ``alerts``.
    ``positions``: partition and offset of the record at which each alert fired. ``decisions``: JSON values.
    ``feature_rows``: figures of records, as shards wrote them (see ``feature_table``).
    """

    alerts: list[dict[str, Any]] = field(default_factory=list)
    unread: AlertLines | None = None
    positions: list[tuple[str, int]] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    late: list[LateRecord] = field(default_factory=list)
    decisions: Sequence[Mapping[str, Any]] = ()
    feature_rows: list[bytes] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=lambda: {"records": 0, "retained": 0, "ingest_ms": {}})
    clocks: dict[str, StreamClocks] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    costs: Meter = field(default_factory=Meter)

    def delivery(self, pipeline: str, batch_id: int) -> Delivery:
        """What sinks take of it."""
        return Delivery(
            pipeline=pipeline,
            batch_id=batch_id,
            alerts=self.alerts if self.unread is None else self.unread,
            dead=self.dead,
            late=self.late,
            figures=self.figures,
            positions=self.positions,
            decisions=self.decisions,
            feature_rows=self.feature_rows,
        )


def collect_from_spark(frame: DataFrame, fetchers: Mapping[str, FetchRaw] | None) -> Outcome:
    """Run the batch in Spark and gather what came out (see ``collect_outcome``)."""
    table = frame.toArrow()
    bodies = map(bytes, map(body_of, table.column("body").to_pylist()))
    return collect_outcome(zip(table.column("kind").to_pylist(), bodies, strict=True), fetchers)


def collect_outcome(
    rows: Iterable[tuple[str, bytes]], fetchers: Mapping[str, FetchRaw] | None, *, unread: bool = False
) -> Outcome:
    """What came out of a batch as (kind, body): alerts in the order of their records, then of their rules.

    Decisions are in the order of their records.

    Bytes of duplicates and late records are fetched from their source. What cannot be fetched within FETCH_S goes
    without its bytes, and is reported; ``fetchers`` None: bytes are not wanted. ``unread``: alerts stay lines.
    """
    outcome = Outcome()
    texts: list[bytes] = []
    fired: list[list[Any]] = []
    duplicates: list[Position] = []
    late: list[Position] = []
    decided: list[Placed] = []
    blocks: list[bytes] = []
    for kind, body in rows:
        if kind == "alerts":
            texts.append(body)
        elif kind == "fired":
            fired += orjson.loads(body)
        elif kind == "places":
            texts[-1], more = _of_before(texts[-1], orjson.loads(body))
            fired += more
        elif kind == "dead":
            outcome.dead.extend(dead_from_json(body))
        elif kind == "duplicates":
            duplicates += orjson.loads(body)
        elif kind == "late":
            late += orjson.loads(body)
        elif kind == DECISIONS:
            decided += orjson.loads(body)
        elif kind == DECIDED:
            blocks.append(body)
        elif kind == COSTS:
            outcome.costs.add(orjson.loads(body))
        elif kind == READ:
            _add_read(outcome.figures, *orjson.loads(body))
        elif kind == FEATURE_ROWS:
            outcome.feature_rows.append(body)
        elif kind == "spent":
            outcome.spent.add(body)
        elif kind == "figures":
            _add(outcome, orjson.loads(body))
        else:
            raise ValueError(f"an outcome of the unknown kind {kind}")
    for name, failed in outcome.figures.get("failed", {}).items():
        _log_unscored(name, failed["why"])
    _put_alerts(outcome, texts, fired, unread=unread)
    outcome.decisions = _in_order(decided, blocks) if decided or blocks else ()
    if duplicates or late:
        every = [*duplicates, *late]
        raws = _unread(every) if fetchers is None else fetch_bytes(every, fetchers, time.monotonic() + FETCH_S)
        outcome.dead += [_duplicate(position, raws) for position in duplicates]
        outcome.late += [_late(position, raws) for position in late]
        if missing := sum(_raw(position, raws) == (None, True) for position in every):
            outcome.figures["without_bytes"] = missing
            log.warning("late records and duplicates go without their bytes, which did not come in time", count=missing)
    return outcome


def _in_order(decided: list[Placed], blocks: list[bytes]) -> Sequence[Mapping[str, Any]]:
    from crossline.runtime.stages.decision_order import in_order  # noqa: PLC0415 - where there is a policy

    return in_order(decided, blocks)


def _add_read(figures: dict[str, Any], segments: int, size: int) -> None:
    for figure, count in (("segments_read", segments), ("segments_read_bytes", size)):
        figures[figure] = figures.get(figure, 0) + count


def _of_before(text: bytes, places: Sequence[Sequence[Any]]) -> tuple[bytes, list[list[Any]]]:
    """Alerts of a state log that an earlier version wrote: one JSON list, and places without the rules."""
    alerts = read_alerts(text)
    return alerts_text(alerts), [[*place, alert["rule_id"]] for place, alert in zip(places, alerts, strict=True)]


def _put_alerts(outcome: Outcome, texts: Iterable[bytes], fired: Iterable[list[Any]], *, unread: bool) -> None:
    """Alerts into ``outcome``; ``fired``: of each the place of its record, with offset and partition, and its rule."""
    lines = [line for text in texts for line in alert_lines(text)]
    ordered = sorted(zip(fired, lines, strict=True), key=lambda each: (each[0][:-1], each[0][-1]))
    if unread:
        outcome.unread = AlertLines([line for _, line in ordered], [rule_id for (*_, rule_id), _ in ordered])
    else:
        outcome.alerts = [read_alert(line) for _, line in ordered]
    outcome.positions = [(partition, offset) for (*_, offset, partition, _), _ in ordered]


@cache
def _log_unscored(name: str, why: str) -> None:
    """Once in the life of this process; how many there are stands in the figures of each batch."""
    log.error("a model did not score records, which its rule did not judge", rule=name, why=why)


def _unread(positions: Sequence[Position]) -> Raws:
    return {(each["stream"], each["partition"]): ({}, False) for each in positions}


def fetch_bytes(positions: Sequence[Position], fetchers: Mapping[str, FetchRaw], until_s: float) -> Raws:
    """The bytes at ``positions``, fetched with one request for each partition."""
    places: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for each in positions:
        places[each["stream"], each["partition"]].add(each["offset"])
    raws: Raws = {}
    for (stream, partition), offsets in places.items():
        found = fetchers[stream](partition, sorted(offsets), until_s) if time.monotonic() < until_s else {}
        raws[stream, partition] = found, time.monotonic() >= until_s
    return raws


def _raw(position: Position, raws: Raws) -> tuple[bytes | None, bool]:
    """The bytes, None where they are not there, and whether that is for want of time."""
    found, time_up = raws[position["stream"], position["partition"]]
    raw = found.get(position["offset"])
    return raw, raw is None and time_up


def _add(outcome: Outcome, more: dict[str, Any]) -> None:
    outcome.figures["records"] += more["records"]
    outcome.figures["retained"] += more["retained"]
    for figure in ("by_stream", "missed", "without_context"):
        for name, count in more.get(figure, {}).items():
            found = outcome.figures.setdefault(figure, {})
            found[name] = found.get(name, 0) + count
    for stream, each in more["clocks"].items():
        clocks = StreamClocks(**each).after(outcome.clocks.get(stream))
        outcome.clocks[stream] = clocks
        outcome.figures["ingest_ms"][stream] = clocks.ingest_ms
    for rule_id, version, why, records in more.get("failed", ()):
        failed = outcome.figures.setdefault("failed", {})
        known = failed.setdefault(f"{rule_id}@{version}", {"records": 0, "why": why})
        known["records"] += records


def _duplicate(position: Position, raws: Raws) -> DeadLetter:
    raw, not_in_time = _raw(position, raws)
    return DeadLetter(
        stream=position["stream"],
        reason="duplicate_id",
        detail=f"id {position['record_id']!r} came before; the first record counts{NOT_IN_TIME if not_in_time else ''}",
        partition=position["partition"],
        offset=position["offset"],
        raw=raw,
        record_id=position["record_id"],
    )


def _late(position: Position, raws: Raws) -> LateRecord:
    return LateRecord(
        stream=position["stream"],
        record_id=position["record_id"],
        event_ms=position["event_ms"],
        ingest_ms=position["ingest_ms"],
        lateness_ms=position["ingest_ms"] - position["event_ms"],
        partition=position["partition"],
        offset=position["offset"],
        raw=_raw(position, raws)[0],
    )
