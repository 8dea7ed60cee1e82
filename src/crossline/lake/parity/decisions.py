"""Compares decisions as the stream gave them with those of a replay, and with the answers in the API's receipts.

Decisions are compared by record. Revisions are left out, since they depend on records that came later; so are decisions
by another version of the policy, since a replay decides by the present one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc

from crossline.evaluate.alerts.alert_json import read_alert
from crossline.lake.parity.receipts import by_stream, receipts_on
from crossline.lake.parity.report import DIFFERENCES_MAX, DecisionDifference, DecisionParity
from crossline.lake.parity.sampling import AlertSample
from crossline.lake.reading import LakeReader
from crossline.lake.replays.replay import IngestSpan
from crossline.lake.tables.row_filters import all_of, equal, one_of
from crossline.lake.tables.table_layouts import BATCH, CHECKPOINT, DECISIONS
from crossline.lake.time_travel import read_body
from crossline.lake.watermark import Watermark

FIELDS = ("decision", "score", "event_time", "ingest_time")
OF_REASON = ("action", "score", "alert_id", "standing", "held_by", "message")
JUDGED = frozenset({"exact", "peek"})  # answers that rest on rules; a fallback rests on none

Decision = Mapping[str, Any]
Record = tuple[str, str]  # stream and id


@dataclass(frozen=True, slots=True)
class DecisionParityInput:
    """What is compared.

    Attributes:
        reader: The lake.
        mark: Up to which batch all tables are whole; later batches of its checkpoint are not looked at.
        span: The ingest times of the records.
        replayed: The decisions of the replay, JSON lines.
        size: How many decisions of a kind are compared.
        policy_version: The version of the policy that the replay decided by.
    """

    reader: LakeReader
    mark: Watermark
    span: IngestSpan
    replayed: Path
    size: int
    policy_version: int


@dataclass(slots=True)
class _Counts:
    sampled: int = 0
    equal: int = 0
    answered: int = 0
    answered_equal: int = 0
    differences: list[DecisionDifference] = field(default_factory=list)


def decided_span(reader: LakeReader, span: IngestSpan) -> IngestSpan:
    """The part of a span whose decisions the lake has from all files of decisions on all records.

    Each file comes to the lake by itself, so what is behind the end of the one that lags is left out. Where none came,
    nothing is left.
    """
    last_us: dict[str, int] = {}
    for rows in reader.batches(DECISIONS.name, [span.condition()], (BATCH, CHECKPOINT, "ingest_time")):
        of_files = rows.filter(pc.is_null(rows.column(BATCH)))
        columns = (of_files.column(CHECKPOINT), of_files.column("ingest_time").cast("int64"))
        for name, at_us in zip(*(column.to_pylist() for column in columns), strict=True):
            last_us[name] = max(at_us, last_us.get(name, at_us))
    return IngestSpan(span.from_ms, min(last_us.values()) // 1_000 + 1 if last_us else span.from_ms)


def compared_decisions(given: DecisionParityInput) -> tuple[DecisionParity, ...]:
    """The comparison by what the stream decided, or the replay where the stream decided nothing."""
    stream, replay = _stream_sample(given), _replay_sample(given)
    records = {
        _record(key)
        for word in stream.rules() | replay.rules()
        for sample in (stream, replay)
        for _, key in sample.ids(word)
    }
    delivered = _delivered(given, records)
    again = {record: each for each in _replayed(given) if (record := _record_of(each)) in records}
    answers = {
        (name, record_id): answer
        for name, record_id, answer, _ in receipts_on(given.reader, records)
        if answer.get("answered") in JUDGED
    }
    found: dict[str, _Counts] = {}
    for record in sorted(records):
        mine, theirs = delivered.get(record), again.get(record)
        known = mine or theirs
        if known is None or (mine is not None and mine["policy_version"] != given.policy_version):
            continue
        counts = found.setdefault(known["decision"], _Counts())
        _compare(counts, record, mine, theirs, answers.get(record))
    return tuple(
        DecisionParity(
            decision=word,
            decisions=stream.counts.get(word, 0),
            sampled=each.sampled,
            equal=each.equal,
            answered=each.answered,
            answered_equal=each.answered_equal,
            differences=tuple(each.differences[:DIFFERENCES_MAX]),
        )
        for word, each in sorted(found.items())
    )


def differing(mine: Decision, theirs: Decision) -> Iterator[str]:
    """What differs between two decisions on a record."""
    yield from (name for name in FIELDS if mine.get(name) != theirs.get(name))
    ours, others = (
        {(each["rule_id"], each["rule_version"]): each for each in decision.get("reasons", ())}
        for decision in (mine, theirs)
    )
    for rule_id, version in sorted(ours.keys() ^ others.keys()):
        yield f"rule {rule_id} version {version} only in the {'stream' if (rule_id, version) in ours else 'other'}"
    for name, version in sorted(ours.keys() & others.keys()):
        one, other = ours[name, version], others[name, version]
        what = [each for each in OF_REASON if one.get(each) != other.get(each)]
        if what:
            yield f"reason {name}: {', '.join(what)}"
    if list(ours) != list(others) and ours.keys() == others.keys():
        yield "order of reasons"


def _compare(
    counts: _Counts, record: Record, mine: Decision | None, theirs: Decision | None, answer: Decision | None
) -> None:
    counts.sampled += 1
    if mine is None or theirs is None:
        what = "only in the lake" if mine is None else "only in the stream"
    else:
        what = ", ".join(differing(mine, theirs))
    if what:
        counts.differences.append(DecisionDifference(*record, "lake", what))
    else:
        counts.equal += 1
    if mine is not None and answer is not None:
        counts.answered += 1
        what = ", ".join(_of_answer(mine, answer))
        if what:
            counts.differences.append(DecisionDifference(*record, "api", f"{what} ({answer['answered']})"))
        else:
            counts.answered_equal += 1


def _of_answer(mine: Decision, answer: Decision) -> Iterator[str]:
    """What the API answered otherwise; what an answer does not have is not compared."""
    yield from (name for name in ("decision", "score") if name in answer and answer[name] != mine.get(name))
    if "reasons" in answer:
        ours, theirs = ({each["rule_id"] for each in decision["reasons"]} for decision in (mine, answer))
        if ours != theirs:
            yield f"rules {', '.join(sorted(ours ^ theirs))}"


def _stream_sample(given: DecisionParityInput) -> AlertSample:
    """The decisions of the stream, by what was decided."""
    sample = AlertSample(given.size)
    names = (BATCH, CHECKPOINT, "stream", "record_id", "decision", "policy_version", "revises")
    for rows in given.reader.batches(DECISIONS.name, [given.span.condition()], names):
        for row in rows.select(list(names)).to_pylist():
            of_policy = row["policy_version"] == given.policy_version
            if of_policy and not row["revises"] and _is_whole(given.mark, row):
                sample.add({"rule_id": row["decision"], "alert_id": _key(row)})
    return sample


def _replay_sample(given: DecisionParityInput) -> AlertSample:
    sample = AlertSample(given.size)
    for each in _replayed(given):
        sample.add({"rule_id": each["decision"], "alert_id": _key(each)})
    return sample


def _replayed(given: DecisionParityInput) -> Iterator[Decision]:
    """The decisions of the replay on records of the span, but for revisions."""
    with given.replayed.open("rb") as lines:
        for line in lines:
            decision = read_alert(line)
            if not decision.get("revises") and given.span.has(decision["ingest_time"]):
                yield decision


def _delivered(given: DecisionParityInput, records: Collection[Record]) -> dict[Record, Decision]:
    """The decisions of the stream on some records."""
    found: dict[Record, Decision] = {}
    for stream, ids in by_stream(records):
        where = [given.span.condition(), equal("stream", stream), one_of("record_id", ids)]
        rows = given.reader.rows(DECISIONS.name, [all_of(where)], (BATCH, CHECKPOINT, "record_id", "revises", "body"))
        for row in rows.to_pylist():
            if not row["revises"] and _is_whole(given.mark, row):
                found.setdefault((stream, row["record_id"]), read_body(row["body"]))
    return found


def _is_whole(mark: Watermark, row: Mapping[str, Any]) -> bool:
    return row[CHECKPOINT] != mark.checkpoint or row[BATCH] is None or row[BATCH] <= mark.batch


def _key(row: Mapping[str, Any]) -> str:
    return orjson.dumps([row["stream"], row["record_id"]]).decode()


def _record(key: str) -> Record:
    stream, record_id = orjson.loads(key)
    return stream, record_id


def _record_of(decision: Decision) -> Record:
    return decision["stream"], decision["record_id"]
