"""Builds the timeline of an alert: its window, the figure at every record, and the mark of each record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossline.backtest.alert_figures import read_figures
from crossline.backtest.investigation.figure_bars import bars_of, figures_of, unit_of
from crossline.backtest.investigation.key_records import KeyRecord
from crossline.backtest.investigation.record_marks import Window, lane_of, marks_of, window_of
from crossline.backtest.investigation.timeline import FigurePoint, Lane, Location, RecordMark, Shape, Timeline, Travel
from crossline.backtest.investigation.variant_runner import Alert, VariantRunner
from crossline.backtest.investigation.window_times import clock_ms
from crossline.basics.formula.naive import haversine_km
from crossline.basics.times import parse_instant_ms
from crossline.programs.program import Program

BEFORE = 5  # a fifth of the window is shown before it


def timeline(
    runner: VariantRunner,
    alert: Alert,
    records: Sequence[KeyRecord],
    *,
    shown: Sequence[str] = (),
    money: str | None = None,
    missing: Sequence[str] = (),
) -> Timeline:
    """The timeline of an alert and the records of its key.

    Args:
        runner: The rule version, and what judges.
        alert: The alert as it was emitted, or its last correction.
        records: The records of its key around the window, in the order of arrival.
        shown: The fields in the table of records.
        money: The field of the amount.
        missing: The parts that could not be read, one sentence each.
    """
    program = runner.program()
    window = window_of(alert, program.figure)
    probes = runner.probe(runner.batch(records)) if program.verdict is not None and records else {}
    at_ms = parse_instant_ms(alert["event_time"])
    marked = _marked(runner, program, records, window, probes, shown, money)
    crossing = next((each.fields for each in records if each.record_id == alert["record_id"]), None)
    figures = tuple(bars_of(runner.rule, program, alert, money, crossing))
    first = figures[0] if figures else None
    start_ms, end_ms = _shown(records, window, at_ms)
    return Timeline(
        shape=shape_of(runner, program),
        figure=_name(runner, program) if program.figures else "",
        unit=_unit(program, money),
        operator=alert["operator"] or (first.operator if first is not None else None),
        threshold=_threshold(alert, first),
        from_ms=start_ms,
        to_ms=end_ms,
        window_start_ms=window.start_ms,
        window_end_ms=window.end_ms,
        bounds=window.bounds,
        crossing=alert["record_id"],
        at_ms=at_ms,
        due_ms=_due(alert, program),
        steps=tuple(_steps(runner, records, probes)) if program.figures else (),
        records=tuple(marked),
        lanes=_lanes(runner, alert, program),
        travel=travel_of(runner, alert, program, records),
        figures=figures,
        money=money,
        missing=tuple(missing),
    )


def shape_of(runner: VariantRunner, program: Program) -> Shape:
    """The kind of drawing of a rule."""
    if program.sequence is not None:
        return "sequence"
    if runner.rule.rule_type == "absence":
        return "absence"
    if runner.rule.rule_type in {"geo_velocity", "correlation"}:
        return "travel" if runner.rule.rule_type == "geo_velocity" else "correlation"
    return "window" if program.figures else "none"


def _marked(
    runner: VariantRunner,
    program: Program,
    records: Sequence[KeyRecord],
    window: Window,
    probes: Mapping[str, Alert],
    shown: Sequence[str],
    money: str | None,
) -> list[RecordMark]:
    stream = runner.rule.reading.judges
    found = []
    for each, (mark, note) in zip(records, marks_of(runner, records, window), strict=True):
        lists = {name: named.at(each.stream, each.ingest_ms) for name, named in runner.setting.lists.items()}
        probe = probes.get(each.record_id) if each.stream == stream else None
        amount = each.value(money) if money is not None else None
        found.append(
            RecordMark(
                record_id=each.record_id,
                stream=each.stream,
                event_ms=each.event_ms,
                ingest_ms=each.ingest_ms,
                mark=mark,
                note=note,
                amount=amount if isinstance(amount, int | float) else None,
                value=_number(probe["value"]) if probe is not None and program.figures else None,
                lane=lane_of(program, each, stream, lists),
                fields={name: each.value(name) for name in shown},
            )
        )
    return found


def _steps(runner: VariantRunner, records: Sequence[KeyRecord], probes: Mapping[str, Alert]) -> list[FigurePoint]:
    stream = runner.rule.reading.judges
    mine = [each for each in records if each.stream == stream and each.record_id in probes]
    steps = [
        FigurePoint(clock_ms(runner, each), _number(probes[each.record_id]["value"]), each.record_id) for each in mine
    ]
    return sorted(steps, key=lambda step: step.at_ms)


def _shown(records: Sequence[KeyRecord], window: Window, at_ms: int) -> tuple[int, int]:
    times = [each.event_ms for each in records] or [at_ms]
    latest = max(at_ms, *times)
    if window.start_ms is None or window.end_ms is None:
        return min(at_ms, *times), latest
    before_ms = window.start_ms - (window.end_ms - window.start_ms) // BEFORE
    return min(before_ms, at_ms), max(latest, window.end_ms)


def _name(runner: VariantRunner, program: Program) -> str:
    if program.comparison is not None:
        return str(getattr(runner.rule, "aggregation_type", program.figures[0].aggregate))
    if runner.rule.rule_type == "geo_velocity":
        return "speed"
    value = None if program.formula is None else program.formula.value
    return value.text if value is not None else "value"


def _unit(program: Program, money: str | None) -> Any:
    verdict = program.formula
    if program.comparison is not None:
        return unit_of(program.figures[0], money)
    if verdict is not None and verdict.value is not None and len(verdict.value.names) == 1:
        figure = figures_of(program, verdict).get(verdict.value.names[0])
        return unit_of(figure, money) if figure is not None else ""
    return ""


def _threshold(alert: Alert, first: Any) -> float | None:
    given = alert["threshold"]
    if isinstance(given, int | float):
        return given
    return first.threshold if first is not None and first.value == alert["value"] else None


def _due(alert: Alert, program: Program) -> int | None:
    """The deadline of the last record of a sequence, or of the record that an absence expects."""
    if (deadline := alert["evidence"].get("deadline")) is not None:
        return parse_instant_ms(deadline)
    if program.sequence is None or alert["window_start"] is None:
        return None
    return parse_instant_ms(alert["window_start"]) + program.sequence.within_ms


def _lanes(runner: VariantRunner, alert: Alert, program: Program) -> tuple[Lane, ...]:
    if program.sequence is not None:
        found = {each["name"]: len(each["record_ids"]) for each in alert["evidence"].get("steps", ())}
        return tuple(Lane(step.name, found.get(step.name, 0), step.times) for step in program.sequence.steps)
    if runner.rule.rule_type == "correlation":
        context = alert["evidence"].get("context") or {}
        other = next((look.source for look in runner.rule.reading.side_inputs), "context")
        return Lane(runner.rule.reading.judges, 1), Lane(other, len(context.get("record_ids", ())))
    return ()


def travel_of(runner: VariantRunner, alert: Alert, program: Program, records: Sequence[KeyRecord]) -> Travel | None:
    """The travel of a ``geo_velocity`` alert, from the record before to the crossing one."""
    if runner.rule.rule_type != "geo_velocity" or program.formula is None:
        return None
    read = read_figures(program.formula, alert)
    latitude, longitude = runner.rule.latitude_field, runner.rule.longitude_field  # type: ignore[attr-defined]
    where = tuple(read.get(name) for name in ("latitude_before", "longitude_before", latitude, longitude))
    elapsed = read.get("elapsed")
    if elapsed is None or None in where:
        return None
    from_latitude, from_longitude, to_latitude, to_longitude = (float(each) for each in where if each is not None)
    at_ms = parse_instant_ms(alert["event_time"])
    before_ms = round(at_ms - elapsed)
    before = next(
        (each for each in reversed(records) if _is_before(runner, each, before_ms, from_latitude, from_longitude)), None
    )
    return Travel(
        start=Location(from_latitude, from_longitude, before_ms, before.record_id if before is not None else None),
        end=Location(to_latitude, to_longitude, at_ms, alert["record_id"]),
        distance_km=haversine_km(from_latitude, from_longitude, to_latitude, to_longitude) or 0.0,
        elapsed_ms=round(elapsed),
        speed_kmh=_number(alert["value"]) if elapsed else None,
        limit_kmh=float(runner.rule.max_speed_kmh),  # type: ignore[attr-defined]
    )


def _is_before(runner: VariantRunner, record: KeyRecord, at_ms: int, latitude: Any, longitude: Any) -> bool:
    here = record.value(runner.rule.latitude_field), record.value(runner.rule.longitude_field)  # type: ignore[attr-defined]
    return record.record_id != runner.record_id and clock_ms(runner, record) == at_ms and here == (latitude, longitude)


def _number(value: Any) -> Any:
    value = float(value) if value in {"Infinity", "-Infinity", "NaN"} else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
