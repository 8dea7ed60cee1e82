"""Feature rows of every record equal the twin's, to the last bit, over any keys, batches and restarts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.evaluate.feature_rows import FeatureRows
from crossline.plan.compile import StreamPlan, compile_stream
from crossline.programs.program import FeatureQuery, FormulaPredicate, Program
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet, RuleVersion

from .conditions import field_value
from .fastpath import FastPath, stream_spec
from .naive import naive_detect, running_max_ingest
from .strategies import LISTS, STREAM, Body, Record, formula_body, records, rule_sets
from .test_detect_equals_naive import DEEP, check, many, run, shapes, with_ingest

FACTS = ("kind", "amount", "price", "flag", "place.city")


def as_feature_query(version: RuleVersion, program: Program) -> Program:
    """The rule as a feature query: the figures that its formula reads, for each record that it would judge."""
    verdict = program.verdict
    if not version.rule.rule_id.startswith("features") or not isinstance(verdict, FormulaPredicate):
        return program
    return replace(program, verdict=FeatureQuery(verdict.names, FACTS))


def plan_of(bodies: list[Body], *, ingest_column: bool) -> StreamPlan:
    spec = stream_spec(ingest_column=ingest_column)
    loaded = load_rules_text(json.dumps(bodies), "rules.yaml", {STREAM: spec}, tuple(LISTS))
    rules = RuleSet.from_rules(item.rule for item in loaded)
    return compile_stream(rules, STREAM, spec, Defaults(), change=as_feature_query)


def exact(value: Any, digits: int | None = None) -> str:
    """Tells any two figures apart, but for the sign of zero."""
    if digits is not None and value is not None:
        return f"{float(value):.{digits}g}"
    return "0" if value == 0 else repr(value)


def with_one_zero(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def rows_of(path: FastPath, bodies: list[Body]) -> list[Any]:
    """Of each record and telling: its place, its figures and how many records they are of, its fields."""
    rough = {(body["rule_id"], name) for body in bodies for name, each in body["figures"].items() if "stddev" in each}
    return sorted(row for reported in path.feature_queries for row in _rows(path, reported, rough))


def _rows(path: FastPath, reported: FeatureRows, rough: set[tuple[str, str]]) -> list[Any]:
    found = []
    for i in range(len(reported)):
        _, _, partition = reported.chunks[reported.chunk[i]]
        figures = {}
        for name, column in reported.figures.items():
            value: Any = column.values[i].item() if column.defined[i] else None
            if column.up is not None and value is not None:
                value += int(column.up[i]) << 64
            if value is not None and column.up is None:
                assert column.arrow()[i].as_py() == value
            digits = 15 if (reported.rule_id, name) in rough else None
            figures[name] = exact(value, digits), int(column.counts[i])
        first = next(iter(reported.figures.values()))
        found.append(
            (
                reported.rule_id,
                path.positions[partition, int(reported.offsets[i])],
                reported.ids[i].as_py(),
                (int(reported.event_ms[i]), int(reported.ingest_ms[i])),
                (int(first.starts_ms[i]), int(first.ends_ms[i])),
                json.dumps(figures),
                json.dumps({name: with_one_zero(reported.facts[name][i].as_py()) for name in FACTS}),
            )
        )
    return found


def twins(bodies: list[Body], made: list[Record]) -> list[Any]:
    """The same of the twin, whose rules alert at every record that they have figures at."""
    found = []
    for body in bodies:
        probe = {**body, "probe": True, "emit": "every"}
        probe.pop("cooldown", None)
        rough = {name for name, each in body["figures"].items() if "stddev" in each}
        for hit in naive_detect([probe], made, lists=LISTS).hits:
            record = made[hit.position]
            figures = {
                name: (exact(value, 15 if name in rough else None), count)
                for name, (value, count) in hit.figures.items()
            }
            times = (record["_event_ms"], record["_ingest_ms"])
            window = (hit.window_start_ms, hit.window_end_ms)
            facts = json.dumps({name: with_one_zero(field_value(record, name)) for name in FACTS})
            found.append((body["rule_id"], hit.position, hit.record_id, times, window, json.dumps(figures), facts))
    return sorted(found)


def drawn(data: st.DataObject, *, panes: bool) -> list[Body]:
    bodies = []
    for number in range(data.draw(st.integers(1, 3))):
        body = {**data.draw(formula_body()), "rule_id": f"features{number}", "version": 1}
        if panes and all("age" not in figure for figure in body["figures"].values()):
            figures = {name: {**figure, "resolution": "1s"} for name, figure in body["figures"].items()}
            body = {**body, "figures": figures, "emit_mode": "last_event"}
        bodies.append(body)
    return bodies


@settings(parent=many, max_examples=1500 if DEEP else 20)
@given(st.data(), rule_sets(max_rules=2), records(), st.booleans())
def test_they_are_the_twins_beside_any_rules(
    data: st.DataObject, rules: list[Body], made: list[Record], ingest_column: bool
) -> None:
    """In its state stores are lines, formulas and other feature queries, which say what they would without it."""
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    bodies, shape = drawn(data, panes=False), data.draw(shapes(len(made)))
    path = FastPath.of(plan_of([*rules, *bodies], ingest_column=ingest_column), shape.shards)
    run(path, shape, made, ["log"] * len(made), data.draw(st.integers(1, 2)))
    assert rows_of(path, bodies) == twins(bodies, made)
    alone = naive_detect([*rules, *bodies], made, lists=LISTS)
    reported = {body["rule_id"] for body in bodies}
    check(path, rules, replace(alone, hits=[hit for hit in alone.hits if hit.rule_id not in reported]), made)


@settings(parent=many, max_examples=500 if DEEP else 12)
@given(st.data(), records(repeats="none"))
def test_they_are_the_twins_where_panes_are_kept(data: st.DataObject, made: list[Record]) -> None:
    bodies, shape = drawn(data, panes=True), data.draw(shapes(len(made)))
    path = FastPath.of(plan_of(bodies, ingest_column=True), shape.shards)
    run(path, shape, made, ["log"] * len(made), data.draw(st.integers(1, 2)))
    assert rows_of(path, bodies) == twins(bodies, made)


def test_a_sum_beyond_64_bits_is_reported_whole() -> None:
    body: Body = {
        "rule_id": "features",
        "version": 1,
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": {"f0": {"sum": "amount", "group_by": "account", "window": "5s"}},
        "when": "f0 >= 2",
    }
    made = [
        {"_id": f"t{n}", "_event_ms": 1_000 + n, "_ingest_ms": 1_000 + n, "account": "a", "amount": 2**63 - 1}
        for n in range(3)
    ]
    path = FastPath.of(plan_of([body], ingest_column=True), 1)
    path.batch([("log", list(enumerate(made)))])
    (reported,) = path.feature_queries
    column = reported.figures["f0"]
    assert column.up is not None
    assert [int(v) + (int(u) << 64) for v, u in zip(column.values, column.up, strict=True)] == [
        2**63 - 1,
        2 * (2**63 - 1),
        3 * (2**63 - 1),
    ]
    assert column.arrow().to_pylist() == [2**63 - 1, None, None]
