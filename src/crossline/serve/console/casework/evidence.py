"""The evidence of an alert as a page shows it: its window drawn, figures against thresholds, records."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossline.backtest.investigation.timeline import Mark, RecordMark, Timeline, timeline_of
from crossline.serve.console.api_calls import called
from crossline.serve.console.casework.rows import one_code, short
from crossline.serve.console.charts.bars import figure_bar
from crossline.serve.console.charts.chart import RecordRow, chart, context_of, record_rows
from crossline.serve.console.charts.dots import LEGEND, key
from crossline.serve.console.charts.svg import Element
from crossline.serve.console.charts.words import Wording
from crossline.serve.console.request import PageRequest

WIDTH, WIDTH_LEAST, WIDTH_MOST, BAR, BAR_NARROW = 872, 280, 1_600, 496, 366
WIDTH_COOKIE = "crossline-width"
ROWS_SHOWN = 25  # of each end, where there are more than twice as many
ROUTE = "/v1/alerts/{alert_id}/evidence"


@dataclass(frozen=True, slots=True)
class EvidenceFigure:
    """A figure of the formula. ``held``: what it is held against, in words."""

    name: str
    what: str
    bar: Element
    value: str
    held: str


@dataclass(frozen=True, slots=True)
class Record:
    """A row of the table. ``kind``: a class of the style; ``cells``: of (text, whole text, is a number)."""

    mark: Element
    caption: str
    kind: str
    record_id: str
    time: str
    amount: str
    cells: tuple[tuple[str, str], ...]
    note: str


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """``left_out``: records between ``first`` and ``last`` that are not shown; ``whole``: where they are.

    ``read_from``: ``lake`` or ``source``; empty: the pipeline has no lake.
    """

    alert_id: str
    drawing: Element | None
    width: int
    at: str
    crossing: str
    legend: tuple[tuple[Element, str], ...]
    figures: tuple[EvidenceFigure, ...]
    columns: tuple[str, ...]
    amount: str
    first: tuple[Record, ...]
    last: tuple[Record, ...]
    left_out: int
    resting: int
    count: int
    missing: tuple[str, ...]
    whole: str
    csv: str
    read_from: str = ""


async def evidence_of(asked: PageRequest, alert_id: str) -> Mapping[str, Any]:
    """Answers of the API of an alert. Raises ProblemError with its text."""
    now_ms, judged = asked.parts.now_ms(), asked.parts.judged
    body = judged.get(alert_id, now_ms)
    if body is None:
        money = asked.parts.settings.cases.money
        query = {} if money is None else {"money": money.field}
        body = await called(asked, "GET", ROUTE, {"alert_id": alert_id}, query=query)
        judged.keep(alert_id, body, now_ms)
    return body


def kept_of(asked: PageRequest, alert_id: str) -> Mapping[str, Any] | None:
    """The same, where it was asked for within the last minute."""
    return asked.parts.judged.get(alert_id, asked.parts.now_ms())


def words_of(asked: PageRequest, case: Mapping[str, Any], noun: str = "records") -> Wording:
    """How charts say things to who looks."""
    money, code = asked.parts.settings.cases.money, one_code([case])
    return Wording(asked.preferred.tz, code, 1 if money is None else 10 ** money.decimals_of(code), noun)


def width_of(asked: PageRequest) -> int:
    """How wide the drawing may be, as the page measured it."""
    given = asked.query.get("width") or asked.request.cookies.get(WIDTH_COOKIE, "")
    return (
        min(max(int(given), WIDTH_LEAST), WIDTH_MOST)
        if given.isascii() and given.isdigit() and len(given) < 5
        else WIDTH
    )


def evidence_view(asked: PageRequest, case: Mapping[str, Any], body: Mapping[str, Any], width: int) -> EvidenceView:
    """The evidence, drawn to ``width`` pixels."""
    found = timeline_of(body)
    words = words_of(asked, case, "records" if not found.records else found.records[0].stream)
    fields = columns_of(found)
    rows = [_record(each, fields) for each in record_rows(found, fields, words)]
    cut = len(rows) > 2 * ROWS_SHOWN and asked.query.get("all") != "1"
    address = f"/cases/{case['number']}"
    alert_id = str(body["alert_id"])
    marks: list[Mark] = [each for each in LEGEND if any(record.mark == each for record in found.records)]
    return EvidenceView(
        alert_id=alert_id,
        drawing=chart_of(found, width, words),
        width=width,
        at=words.clock(found.at_ms),
        crossing=found.crossing,
        legend=tuple((key(each), LEGEND[each]) for each in marks if each != "crossing"),
        figures=tuple(_figure(each, words, min(BAR, max(width - 376, BAR_NARROW))) for each in found.figures),
        columns=tuple(each.replace("_", " ") for each in fields),
        amount=words.amounts(found.money)
        if found.money and any(each.amount is not None for each in found.records)
        else "",
        first=tuple(rows[:ROWS_SHOWN] if cut else rows),
        last=tuple(rows[-ROWS_SHOWN:] if cut else ()),
        left_out=len(rows) - 2 * ROWS_SHOWN if cut else 0,
        resting=sum(each.mark in {"counted", "before", "crossing"} for each in found.records),
        count=len(rows),
        missing=found.missing,
        whole=f"{address}/evidence/{alert_id}?all=1",
        csv=f"{address}/records/{alert_id}",
        read_from=str(body.get("records_from") or ""),
    )


def chart_of(found: Timeline, width: int, words: Wording) -> Element | None:
    """The drawing that its shape has; of a correlation its own number against that of the other stream."""
    if found.shape != "correlation":
        return chart(found, width, words)
    theirs = _number_in(each for each in found.records if each.lane == 1)
    own = _number_in(each for each in found.records if each.mark == "crossing")
    return chart(found, width, words, context_of(found, theirs or "", own))


def _number_in(records: Iterable[RecordMark]) -> str | None:
    """The first field of records that has a number; None if none has."""
    values = ((name, value) for each in records for name, value in each.fields.items())
    return next((name for name, value in values if isinstance(value, int | float)), None)


def columns_of(found: Timeline) -> list[str]:
    """The fields that the rule names, but for the amount, which has a column of its own."""
    names = dict.fromkeys(name for each in found.records for name in each.fields)
    return [name for name in names if name != found.money]


def as_csv(asked: PageRequest, case: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """All records as CSV; a cell that a spreadsheet would run is text."""
    found = timeline_of(body)
    fields = columns_of(found)
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["record", "event_time", "mark", "amount", *fields, "note"])
    words = words_of(asked, case)
    times = {each.record_id: each.event_ms for each in found.records}
    for each in record_rows(found, fields, words):
        at = asked.times.moment(times[each.record_id]).iso
        table.writerow(
            map(_cell, [each.record_id, at, each.mark, each.amount.replace(",", ""), *each.fields, each.note])
        )
    return out.getvalue()


def _cell(text: str) -> str:
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _record(row: RecordRow, fields: Sequence[str]) -> Record:
    kind = {"crossing": "cross", "outside": "out", "filtered": "out", "after": "out"}.get(row.mark, "")
    cells: Iterable[tuple[str, str]] = ((short(each), each) for each, _ in zip(row.fields, fields, strict=True))
    mark: Mark = row.mark  # type: ignore[assignment]  # it came out of a timeline
    return Record(key(mark), LEGEND[mark], kind, row.record_id, row.time, row.amount, tuple(cells), row.note)


def _figure(bar: Any, words: Wording, width: int) -> EvidenceFigure:
    if bar.what.startswith(bar.name):  # its words begin with what it is called
        what = bar.what.removeprefix(bar.name).lstrip(", ")
        drawn_bar = figure_bar(bar, width, words)
        return EvidenceFigure(
            bar.name.replace("_", " "), what, drawn_bar, words.value(bar.value, bar.unit), words.held(bar)
        )
    return EvidenceFigure(
        bar.name.replace("_", " "),
        bar.what,
        figure_bar(bar, width, words),
        words.value(bar.value, bar.unit),
        words.held(bar),
    )
