"""A row per record, with figures of any keys joined to it, equals the twin's, however the stream is cut."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.backtest.figures.figure_table import figure_types
from crossline.basics.texts.yamltext import load_yaml
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.figure_tables import PlacedFigure, feature_query, load_figures_document
from crossline.runtime.stages.feature_table import FeatureBatch
from crossline.runtime.stages.rows import FEATURE_ROWS
from drawing import one_of_these

from .fastpath import FastPath, plans_of, stream_spec
from .naive import naive_detect, running_max_ingest
from .strategies import LISTS, START_MS, STREAM, Body, Record, formula_body, records
from .test_detect_equals_naive import DEEP, Shape, many, run, shapes, with_ingest
from .test_feature_queries import exact


def figures_of(table: Body, *, ingest_column: bool) -> list[PlacedFigure]:
    streams = {STREAM: stream_spec(ingest_column=ingest_column)}
    return load_figures_document(load_yaml(json.dumps(table), "figures.yaml"), streams, tuple(LISTS))


def written(table: Body, made: list[Record], shape: Any, *, ingest_column: bool) -> list[Body]:
    """The rows of the table, in its order."""
    spec, figures = stream_spec(ingest_column=ingest_column), figures_of(table, ingest_column=ingest_column)
    plans = compile_all(feature_query(figures), {STREAM: spec}, Defaults())
    path = FastPath.of(list(plans.values()), shape.shards)
    run(path, shape, made, ["log"] * len(made), 2)
    columns = figure_types(figures, {STREAM: spec})
    tables = []
    for rows in path.feature_table_rows:
        assert {kind for kind, _ in rows} <= {FEATURE_ROWS}
        tables.append(FeatureBatch.of(body for _, body in rows).table(columns))
    return pa.concat_tables([columns.schema.empty_table(), *tables]).to_pylist()


def twins(table: Body, made: list[Record]) -> list[Body]:
    """The same of the twin: of each figure a rule that alerts at every record; copies and late records have no row."""
    bodies = [
        {
            "rule_id": name,
            "version": 1,
            "rule_type": "formula",
            "source_topic": STREAM,
            "figures": {"f0": figure},
            "when": "f0 >= 2",
            "probe": True,
            "emit": "every",
            "allowed_lateness": table["allowed_lateness"],
            "watermark_delay": table["allowed_lateness"],
        }
        for name, figure in table["figures"].items()
    ]
    result = naive_detect(bodies, made, lists=LISTS)
    found = {(hit.rule_id, hit.position): hit.figures["f0"][0] for hit in result.hits}
    without = {*result.duplicates, *result.late}
    return [
        {
            "record_id": record["_id"],
            "event_time": record["_event_ms"],
            **{name: found.get((name, place)) for name in table["figures"]},
        }
        for place, record in enumerate(made)
        if place not in without
    ]


def plain(rows: list[Body], table: Body) -> list[Body]:
    """Values in which any two figures differ; integers beyond 64 bits are missing, deviations have fifteen digits."""
    rough = {name for name, figure in table["figures"].items() if "stddev" in figure}
    found = []
    for row in rows:
        event = row["event_time"]
        shown = {"event_time": event if isinstance(event, int) else round(event.timestamp() * 1000)}
        for name, value in row.items():
            if name != "event_time":
                beyond = isinstance(value, int) and not -(2**63) <= value < 2**63
                shown[name] = exact(None if beyond else value, 15 if name in rough else None)
        found.append(shown)
    return found


@settings(parent=many, max_examples=1500 if DEEP else 12)
@given(st.data(), records(), st.booleans())
def test_the_table_is_the_twins(data: st.DataObject, made: list[Record], ingest_column: bool) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    figures = {}
    for number in range(data.draw(st.integers(1, 3))):
        drawn = data.draw(formula_body())["figures"]
        figures |= {f"{name}_{number}": figure for name, figure in drawn.items()}
    lateness = data.draw(one_of_these("0s", "1s", "5s"))
    table: Body = {"source_topic": STREAM, "figures": figures, "allowed_lateness": lateness}
    shape = data.draw(shapes(len(made)))
    assert plain(written(table, made, shape, ingest_column=ingest_column), table) == plain(twins(table, made), table)


LARGE = 6 * 10**18  # as an integer of 64 bits, of which two have a sum that is none


def _large(number: int) -> Record:
    at = START_MS + 1000 * number
    return {"_id": f"t{number}", "_event_ms": at, "_ingest_ms": at, "account": "a1", "device": 1, "amount": LARGE}


def test_an_average_of_panes_is_reported_however_large_the_sum() -> None:
    """By hand: three times 6e18 are 18e18, and on average 6e18; without panes as with them."""
    made = [_large(number) for number in range(3)]
    figure = {"avg": "amount", "group_by": "account", "window": "10s"}
    figures = {"panes": {**figure, "resolution": "2s"}, "exact": figure}
    for name, each in figures.items():
        table: Body = {"source_topic": STREAM, "figures": {name: each}, "allowed_lateness": "1s"}
        rows = written(table, made, Shape(1, [(0, 3)], []), ingest_column=True)
        assert [row[name] for row in rows] == [6e18] * 3


def test_an_average_of_panes_that_is_supplied_is_that_of_its_key() -> None:
    body: Body = {
        "rule_id": "r0",
        "version": 1,
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": {
            "mine": {"count": True, "group_by": "account", "window": "10s", "resolution": "2s"},
            "all": {"avg": "amount", "group_by": "device", "window": "10s", "resolution": "2s"},
        },
        "when": "mine >= 1 and all >= 1",
        "value": "all",
        "emit": "every",
    }
    made = [_large(number) for number in range(3)]
    path = FastPath.of(plans_of([body], stream_spec(ingest_column=True), {}), 2)
    run(path, Shape(2, [(0, 3)], []), made, ["log"] * 3)
    assert [alert["value"] for alert in path.alerts] == [6e18] * 3


def test_a_copy_of_a_record_that_is_long_past_has_no_row_on_the_ingest_clock() -> None:
    """By hand: p1 comes 200 s after it happened, and p2 at once; each comes twice, p2 also after 10 min, in an hour."""
    times = [("p1", 0, 200), ("p1", 0, 201), ("p2", 202, 202), ("p2", 202, 203), ("p2", 202, 802), ("p3", 900, 900)]
    made: list[Record] = [
        {"_id": name, "_event_ms": START_MS + 1000 * at, "_ingest_ms": START_MS + 1000 * then, "account": "a1"}
        for name, at, then in times
    ]
    figure = {"count": True, "group_by": "account", "window": "1h"}
    table: Body = {"source_topic": STREAM, "figures": {"tries": figure}, "time_mode": "processing_time"}
    rows = written(table, made, Shape(2, [(0, 2), (2, 6)], []), ingest_column=True)
    assert [(row["record_id"], row["tries"]) for row in rows] == [("p1", 1), ("p2", 2), ("p3", 3)]
