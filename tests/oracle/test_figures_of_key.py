"""The figures of a key as of the stream's clock: the twin's, which scans all records, whatever keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.evaluate.entity.key_figures import CurrentFigure, figures_of_key
from drawing import one_of_these

from . import naive
from .conditions import field_value
from .fastpath import FastPath, plan_of, stream_spec
from .naive import naive_detect
from .rule_versions import Entry, read_rule
from .strategies import CITIES, FIELDS, LISTS, Body, Record, formula_body, records, velocity_body
from .test_corrections import WITHIN
from .test_detect_equals_naive import DEEP, Shape, check, many, run, shapes
from .test_feature_queries import exact

KEYS: dict[str, list[Any]] = {**{name: FIELDS[name] for name in ("account", "device", "price", "flag")}}
KEYS |= {"place.city": CITIES}
NEVER = {"account": "nobody", "device": 99, "price": 77.5, "place.city": "Paris"}
Answers = list[tuple[str, str, str, int, int, int, int]]


@st.composite
def bodies_of(draw: st.DrawFn, field: str) -> list[Body]:
    """Rules whose key is ``field``: of windows of records, of panes, and such as judge again."""
    made = []
    for number in range(draw(st.integers(1, 4))):
        body = draw(st.one_of(velocity_body(), formula_body()))
        kept = draw(one_of_these("records", "records", "panes", "again"))
        body |= {"rule_id": f"r{number}", "version": 1}
        figures = {name: {**each, "group_by": field} for name, each in body.get("figures", {}).items()}
        body |= {"figures": figures} if figures else {"group_by": field}
        if kept == "panes" and all("age" not in each for each in figures.values()):
            figures = {name: {**each, "resolution": "1s"} for name, each in figures.items()}
            body |= {"emit_mode": "last_event"} | ({"figures": figures} if figures else {"resolution": "1s"})
        if kept == "again":
            body = {name: each for name, each in body.items() if name != "time_mode"} | WITHIN
        made.append(body)
    return made


def digits_of(rule: naive.Rule) -> int | None:
    return 15 if rule.aggregate == "stddev" else None


def twin(bodies: list[Body], made: Sequence[Record], field: str, value: Any) -> Answers:
    """What a record of now would find before it, were it of all rules and in no window."""
    if not made:
        return []
    now_ms, reported = max(record["_ingest_ms"] for record in made), Answers()
    came = [
        naive.Record(place, one["_id"], one["_event_ms"], one["_ingest_ms"], naive._with_one_zero(one))
        for place, one in enumerate(made)
    ]
    asking = naive.Record(len(made), "", now_ms, now_ms, naive._with_one_zero({field: value}))
    for body in bodies:
        rule = read_rule(Entry(body, 0, 2**62), {})
        for name, figure in rule.figures or (("", rule),):
            window = naive._window(replace(figure, include_current=False), asking, came, LISTS)
            found = exact(naive._value(figure, asking, window, LISTS), digits_of(figure))
            reported.append((body["rule_id"], name, found, len(window), *naive._edges(figure, now_ms), now_ms))
    return sorted(reported)


def answers(path: FastPath, bodies: list[Body], field: str, value: Any) -> Answers:
    by_id = {body["rule_id"]: read_rule(Entry(body, 0, 2**62), {}) for body in bodies}
    text = value if isinstance(value, str) else str(value).lower()
    reported = Answers()
    for each in figures_of_key(path.plans, path.shards[0].state, field, text):
        assert isinstance(each, CurrentFigure), each
        rule, asked = by_id[each.queried.rule_id], each.queried
        digits = digits_of(dict(rule.figures).get(asked.name, rule))
        if not rule.figures:
            assert asked.line is not None
            assert (asked.line.operator, asked.line.threshold) == (rule.operator, rule.threshold)
        window = each.window_start_ms, each.window_end_ms
        name = asked.name if rule.figures else ""
        reported.append((asked.rule_id, name, exact(each.value, digits), each.count, *window, each.now_ms))
    return sorted(reported)


def values_of(made: Sequence[Record], field: str) -> list[Any]:
    came = {repr(found): found for one in made if (found := field_value(one, field)) is not None}
    return [*came.values(), *([NEVER[field]] if field in NEVER else [])]


@settings(parent=many, max_examples=1500 if DEEP else 30)
@given(st.data(), st.sampled_from(list(KEYS)), records(repeats="none"))
def test_they_are_the_twins(data: st.DataObject, field: str, made: list[Record]) -> None:
    bodies, shape = data.draw(bodies_of(field)), data.draw(shapes(len(made)))
    path = FastPath.of(plan_of(bodies, stream_spec(ingest_column=True), {}), 1)
    run(path, Shape(1, shape.batches, [(batch, 0) for batch, _ in shape.losses]), made, ["log"] * len(made))
    for value in values_of(made, field) if made else ():
        assert answers(path, bodies, field, value) == (wanted := twin(bodies, made, field, value))
        if "resolution" not in str(bodies):
            assert answers(path, bodies, field, value) == wanted, "nothing came of asking"
        path.restore(0)  # who was asked is of no use any more


@settings(parent=many, max_examples=500 if DEEP else 12)
@given(st.data(), records(), st.integers(0, 40))
def test_where_records_are_kept_as_such_asking_changes_nothing(
    data: st.DataObject, made: list[Record], until: int
) -> None:
    """Asked twice the answer is the same, and what is judged later is as if nobody had asked."""
    bodies = data.draw(bodies_of("account"))
    for body in bodies:
        body.pop("resolution", None)
        if body.get("late_policy") == "reevaluate":
            body["late_policy"] = "evaluate"
        for figure in body.get("figures", {}).values():
            figure.pop("resolution", None)
    path = FastPath.of(plan_of(bodies, stream_spec(ingest_column=True), {}), 1)
    numbered = list(enumerate(made))
    path.batch([("log", numbered[:until])])
    for value in values_of(made[:until], "account") if made[:until] else ():
        assert answers(path, bodies, "account", value) == answers(path, bodies, "account", value)
    path.batch([("log", numbered[until:])])
    check(path, bodies, naive_detect(bodies, made, lists=LISTS), made)
