"""Compares alerts as the stream gave them with those of a replay, and with the figures of the API's receipts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from crossline.evaluate.alerts.alert_json import read_quickly
from crossline.lake.parity.receipts import receipts_on
from crossline.lake.parity.report import DIFFERENCES_MAX, AlertDifference, RuleParity
from crossline.lake.parity.sampling import Alert, AlertSample
from crossline.lake.reading import LakeReader
from crossline.lake.replays.replay import IngestSpan
from crossline.lake.tables.table_layouts import ALERTS, BATCH, CHECKPOINT
from crossline.lake.time_travel import read_body
from crossline.lake.watermark import Watermark

FIELDS = (
    *("kind", "rule_version", "severity", "score", "action", "key", "stream", "record_id", "event_time", "ingest_time"),
    *("value", "operator", "threshold", "window_start", "window_end", "evidence", "message"),
)

Figures = Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]  # by stream and record id, by rule


def delivered_sample(reader: LakeReader, mark: Watermark, span: IngestSpan, size: int) -> AlertSample:
    """A sample of the alerts that the stream gave for the records of a span, corrections left out.

    Args:
        reader: The lake.
        mark: Up to which batch all tables are whole; later batches of its checkpoint are not looked at.
        span: The ingest times of the records.
        size: How many alerts of a rule are kept.
    """
    sample = AlertSample(size)
    for rows in reader.batches(ALERTS.name, [span.condition()], (BATCH, CHECKPOINT, "body")):
        columns = (rows.column(name).to_pylist() for name in (BATCH, CHECKPOINT, "body"))
        for batch, checkpoint, body in zip(*columns, strict=True):
            if checkpoint != mark.checkpoint or batch <= mark.batch:
                sample.add(read_body(body))
    return sample


def answered_figures(reader: LakeReader, records: Collection[tuple[str, str]]) -> dict[tuple[str, str], Any]:
    """By stream and record id, the figures that the API answered with, by rule; records without a peek are left out."""
    return {
        (stream, record_id): {each["name"]: each for each in receipt.get("figures") or ()}
        for stream, record_id, answer, receipt in receipts_on(reader, records)
        if answer.get("answered") == "peek"
    }


def sampled_records(stream: AlertSample, lake: AlertSample) -> set[tuple[str, str]]:
    """The records of the alerts that are compared: stream and id."""
    return {
        (alert["stream"], alert["record_id"])
        for rule_id in stream.rules() | lake.rules()
        for alert, _ in stream.both(lake, rule_id)
        if alert is not None
    }


def compared(rule_id: str, stream: AlertSample, lake: AlertSample, answers: Figures) -> RuleParity:
    """The comparison of a rule."""
    sampled = differing = answered = answered_differing = 0
    differences: list[AlertDifference] = []
    for mine, theirs in stream.both(lake, rule_id):
        sampled += 1
        what = ", ".join(_differing(mine, theirs))
        if what:
            differing += 1
            differences.append(_difference(mine or theirs, "lake", what))
        figures = None if mine is None else answers.get((mine["stream"], mine["record_id"]))
        if mine is not None and figures is not None:
            answered += 1
            what = _of_answer(mine, figures.get(rule_id))
            if what:
                answered_differing += 1
                differences.append(_difference(mine, "api", what))
    return RuleParity(
        rule_id=rule_id,
        alerts=stream.counts.get(rule_id, 0),
        sampled=sampled,
        equal=sampled - differing,
        answered=answered,
        answered_equal=answered - answered_differing,
        differences=tuple(differences[:DIFFERENCES_MAX]),
    )


def _difference(alert: Alert | None, other: str, what: str) -> AlertDifference:
    found = alert or {}
    return AlertDifference(found["alert_id"], found["record_id"], other, what)


def _differing(mine: Alert | None, theirs: Alert | None) -> Iterator[str]:
    if mine is None or theirs is None:
        yield "only in the lake" if mine is None else "only in the stream"
        return
    yield from (name for name in FIELDS if mine.get(name) != theirs.get(name))


def _of_answer(alert: Alert, figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return "no figure"
    return "" if figure["value"] == read_quickly(alert["value"]) else "value"
