"""Hypothesis strategies: records, rule sets and cuts, rich in ties, window edges, late and repeated records.

All times lie on a coarse grid that windows and delays share, keys are few, and floats are those that sums go wrong on.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

from hypothesis import strategies as st

from crossline.programs.registry import counted_names, declared, names
from drawing import one_of_these

from .formulas import DRAWN, DRAWN_VALUES

Body = dict[str, Any]
Record = dict[str, Any]

STREAM = "payments"
STREAM_FILE: dict[str, Any] = {
    "schema_version": 1,
    "streams": {
        STREAM: {
            "format": "json",
            "id": "id",
            "event_time": {"field": "event_time", "unit": "ms"},
            "ingest_time": {"field": "received_at", "unit": "ms"},
            "fields": {
                "id": "string",
                "account": "string?",
                "device": "integer?",
                "amount": "integer?",
                "price": "number?",
                "kind": "string?",
                "flag": "boolean?",
                "place": {"city": "string?"},
                "event_time": "integer",
                "received_at": "integer",
            },
        }
    },
}
LISTS = {"cash": ["CSH", "ATM"]}
START_MS = 1_700_000_000_000

INTEGERS = [0, 1, 2, 3, -1, 7, 10**12, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
FLOATS = [0.1, 0.2, 0.3, 1.0, -1.0, 2.5, 1e16, -1e16, 1e-9, 1e16 + 2, -0.0, 0.0, 1e308, -1e308, 5e-324]
KINDS = ["CSH", "POS", "ATM", "été", ""]
FIELDS: dict[str, list[Any]] = {
    "account": ["a1", "a1", "a1", "a2", "ключ"],
    "device": [1, 2],
    "amount": INTEGERS,
    "price": FLOATS,
    "kind": KINDS,
    "flag": [True, False],
}
CITIES = ["Rome", "Oslo"]
VALUES = {name: st.sampled_from([*pool, *pool, *pool, None, "missing"]) for name, pool in FIELDS.items()}
CITY = st.sampled_from([*CITIES, None, "missing"])
INGEST_STEPS_MS = [0, 0, 0, 0, 0, 500, 500, 1000, 1000, 1, 3000, 12_000]
LATENESS_MS = [0, 0, 0, 0, 500, 1000, 1001, 2000, 3000, 5000, 8000, -1000]
INGEST_STEP_MS, LATE_MS = st.sampled_from(INGEST_STEPS_MS), st.sampled_from(LATENESS_MS)


@st.composite
def records(draw: st.DrawFn, max_size: int = 40, *, repeats: str = "exact") -> list[Record]:
    """Records in ingest order, as the twin takes them.

    ``repeats``: an id that comes again comes with the ``exact`` record, with the ``same_key`` but other values, or with
    ``any`` fields; ``none`` repeats no id. Ingest times never go back.
    """
    made: list[Record] = []
    ingest_ms = START_MS
    for number in range(draw(st.integers(0, max_size))):
        ingest_ms += draw(INGEST_STEP_MS)
        record = {
            **draw(OWN_FIELDS),
            "_id": f"t{number}",
            "_event_ms": ingest_ms - draw(LATE_MS),
            "_ingest_ms": ingest_ms,
        }
        if made and repeats != "none" and draw(st.integers(0, 9)) == 0:
            record = _repeated(draw(st.sampled_from(made)), record, repeats)
        made.append(record)
    return made


def _repeated(old: Record, new: Record, repeats: str) -> Record:
    if repeats == "exact":
        return {**old, "_ingest_ms": new["_ingest_ms"]}
    kept = ("_id", "account", "device", "place", "flag") if repeats == "same_key" else ("_id",)
    return {name: value for name, value in new.items() if name not in kept} | {
        name: old[name] for name in kept if name in old
    }


@st.composite
def _fields(draw: st.DrawFn) -> Record:
    """Each field present, null or missing."""
    fields: Record = {}
    for name, values in VALUES.items():
        value = draw(values)
        if value != "missing":
            fields[name] = value
    city = draw(CITY)
    if city != "missing":
        fields["place"] = {"city": city}
    return fields


OWN_FIELDS = _fields()


def wire_record(record: Record) -> Record:
    """The record as it stands in a JSON line of the stream, its id and times in fields of their own."""
    own = {name: value for name, value in record.items() if not name.startswith("_")}
    times = {"event_time": record["_event_ms"], "received_at": record["_ingest_ms"]}
    return {"id": record["_id"], **own, **times}


@cache
def _seconds(*seconds: float) -> st.SearchStrategy[str]:
    return st.sampled_from([f"{round(s * 1000)}ms" if s % 1 else f"{s}s" for s in seconds])


def leaf(field: str, operators: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    return st.builds(
        lambda operator, value: {"field": field, "operator": operator, "value": value},
        st.sampled_from(operators),
        values,
    )


ORDERED: list[str] = ["==", "!=", ">", ">=", "<", "<="]
LEAVES = st.one_of(
    leaf("amount", ORDERED, st.sampled_from([0, 1, 3, 2**53]) | st.just({"field": "device"})),
    leaf("amount", ["between"], st.sampled_from([[0, 2], [1, 1], [-1, 10**13]])),
    leaf("price", ORDERED, st.sampled_from([0.1, 0.3, 1.0, 1e16])),
    leaf("kind", ["==", "!="], st.sampled_from(KINDS)),
    leaf("kind", ["in", "not_in"], st.sampled_from([["CSH"], ["POS", "été"]]) | st.just({"list": "cash"})),
    leaf("kind", ["contains", "starts_with", "ends_with"], st.sampled_from(["C", "S", "té"])),
    leaf("kind", ["regex"], st.sampled_from(["^C.H$", "[AO]", "T"])),
    leaf("flag", ["==", "!="], st.booleans()),
    leaf("place.city", ["==", "!="], st.sampled_from(CITIES)),
    st.builds(
        lambda field, operator: {"field": field, "operator": operator},
        st.sampled_from(["amount", "price", "kind", "flag", "place.city"]),
        st.sampled_from(["exists", "missing"]),
    ),
)
NODES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"all": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda parts: {"any": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=3,
)
CONDITIONS = st.lists(NODES, min_size=1, max_size=2)

GROUPS: list[Any] = [
    None,
    None,
    "account",
    "account",
    "account",
    "device",
    ["account"],
    ["account", "device"],
    "place.city",
    ["place.city", "account", "flag"],
    "price",
]
AGGREGATED: dict[str, list[str | None]] = {
    "count": [None, None, "amount"],
    **{
        name: ["amount", "price", "kind", "flag", "device"] if declared(name).takes == "values" else ["amount", "price"]
        for name in counted_names()
        if name != "count" and declared(name).window is not None
    },
}
THRESHOLDS: dict[Any, list[Any]] = {
    None: [0, 1, 2, 3],
    "amount": [0, 1, 2, 3, 2**53],
    "price": [0.1, 0.3, 0.30000000000000004, 1.0, 0],
}
# Strategies are checked when they are first drawn from: what each body draws from is made once.
GROUPED = st.sampled_from(GROUPS)
PERHAPS_CONDITIONS = st.one_of(st.none(), CONDITIONS)
SELDOM_CONDITIONS = st.one_of(st.none(), st.none(), CONDITIONS)
PERHAPS_ONE = st.one_of(st.none(), LEAVES.map(lambda one: [one]))
SELDOM_UNTIL = st.one_of(st.none(), st.none(), LEAVES.map(lambda one: {"conditions": [one]}))
COOLDOWN = st.none() | _seconds(1, 3, 0.5)
SELDOM_COOLDOWN = st.none() | st.none() | _seconds(1, 3, 0.5)
DELAY = st.none() | st.none() | _seconds(1, 3)


@st.composite
def velocity_body(draw: st.DrawFn, aggregates: tuple[str, ...] = tuple(AGGREGATED)) -> Body:
    """A velocity rule of any options, without its name, version and times of effect."""
    aggregate = draw(one_of_these(*aggregates))
    field = draw(one_of_these(*AGGREGATED[aggregate]))
    counted = declared(aggregate).counts or declared(aggregate).takes == "values"
    body = {
        "rule_type": "velocity",
        "source_topic": STREAM,
        "group_by": draw(GROUPED),
        "window": draw(_seconds(1, 3, 3, 5, 5, 12, 12, 1.5)),
        "aggregation_type": aggregate,
        "aggregation_field": field,
        "aggregation_threshold": draw(one_of_these(*THRESHOLDS[None if counted else field])),
        "operator": draw(one_of_these(*ORDERED, ">=", ">=", None)),
        "conditions": draw(SELDOM_CONDITIONS),
        "bounds": draw(one_of_these(None, "(]", "[]", "[)")),
        "include_current": draw(one_of_these(None, None, True, False)),
        "emit": draw(one_of_these(None, "on_crossing", "every")),
        "emit_mode": draw(one_of_these(None, "last_event", "window")),
        "cooldown": draw(COOLDOWN),
        **draw(TIMES),
    }
    return {name: value for name, value in body.items() if value is not None}


def _given(fields: Body) -> Body:
    return {name: value for name, value in fields.items() if value is not None}


@st.composite
def formula_body(draw: st.DrawFn) -> Body:
    """A formula of two figures of one key, without its name, version and times of effect."""
    group_by, figures = draw(GROUPED), {}
    for name in ("f0", "f1"):
        aggregate = draw(one_of_these(*names(of_records=True), *AGGREGATED))
        pool: dict[str, list[str | None]] = {**{n: [None] for n in names(of_records=True)}, "stddev": ["amount"]}
        field = draw(one_of_these(*(pool.get(aggregate) or AGGREGATED[aggregate])))
        conditions = draw(CONDITIONS if aggregate == "streak" else SELDOM_CONDITIONS)
        fields = {
            "group_by": group_by,
            "window": draw(_seconds(1, 3, 5, 12, 1.5)),
            "delay": draw(DELAY),
            "conditions": conditions,
            "bounds": draw(one_of_these(None, "(]", "[]", "[)")),
            "include_current": draw(one_of_these(None, None, True, False)),
        }
        figures[name] = {aggregate: True if field is None else field, **_given(fields)}
    when, value = draw(one_of_these(*DRAWN)), draw(one_of_these(None, *DRAWN_VALUES))
    read = {name: each for name, each in figures.items() if name in f"{when} {value}"}
    if not read:
        when, read = "f0 >= 2", {name: each for name, each in figures.items() if name in f"f0 {value}"}
    body = {
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": read,
        "when": when,
        "value": value,
        "conditions": draw(SELDOM_CONDITIONS),
        "emit": draw(one_of_these(None, "on_crossing", "every")),
        "emit_mode": draw(one_of_these(None, "window")),
        "cooldown": draw(COOLDOWN),
        **draw(TIMES),
    }
    return _given(body)


@st.composite
def dormancy_body(draw: st.DrawFn) -> Body:
    """A key that was silent for some seconds, without its name, version and times of effect."""
    window_s, more_s = draw(one_of_these(1, 3)), draw(one_of_these(0, 2))
    body = {
        "rule_type": "dormancy",
        "source_topic": STREAM,
        "group_by": draw(st.sampled_from([each for each in GROUPS if each is not None])),
        "conditions": draw(PERHAPS_CONDITIONS),
        "inactive_for": f"{window_s + more_s}s",
        "window": f"{window_s}s",
        "known_for": draw(st.sampled_from([None, None, f"{2 * window_s + more_s}s", "12s"])),
        "include_unseen": draw(one_of_these(None, None, True)),
        "at_least": draw(one_of_these(None, 1, 2)),
        "emit": draw(one_of_these(None, None, "every")),
        "cooldown": draw(COOLDOWN),
        **draw(TIMES),
    }
    return _given(body)


@st.composite
def sequence_body(draw: st.DrawFn) -> Body:
    """A sequence of a few steps that many records take, without its name, version and times of effect."""
    steps = [
        _given(
            {"name": f"s{number}", "times": draw(one_of_these(None, None, 1, 2, 3)), "conditions": draw(PERHAPS_ONE)}
        )
        for number in range(draw(one_of_these(1, 2, 2, 2, 3)))
    ]
    if len(steps) == 1:
        steps[0]["times"] = draw(st.integers(2, 4))
    body = {
        "rule_type": "sequence",
        "source_topic": STREAM,
        "group_by": draw(GROUPED),
        "within": draw(_seconds(1, 3, 5, 12, 1.5)),
        "steps": steps,
        "until": draw(SELDOM_UNTIL),
        "strict": draw(one_of_these(None, None, True)),
        "conditions": draw(SELDOM_CONDITIONS),
        "cooldown": draw(SELDOM_COOLDOWN),
        **draw(TIMES),
    }
    if draw(st.integers(0, 3)) == 0:  # a device here, and there an amount that is its number
        part = draw(st.sampled_from([*steps, *([body["until"]] if body["until"] else [])]))
        body |= {"group_by": "device", "strict": None}
        part["group_by"] = "amount"
    return _given(body)


@st.composite
def absence_body(draw: st.DrawFn) -> Body:
    """A record that another should follow, without its name, version and times of effect."""
    body = {
        "rule_type": "absence",
        "source_topic": STREAM,
        "group_by": draw(GROUPED),
        **{name: [draw(LEAVES)] for name in ("after", "expect")},
        "within": draw(_seconds(1, 3, 5, 12, 1.5)),
        "conditions": draw(SELDOM_CONDITIONS),
        "cooldown": draw(SELDOM_COOLDOWN),
    } | draw(TIMES)
    return _given(body)


@st.composite
def threshold_body(draw: st.DrawFn) -> Body:
    """A threshold rule, or one of a list, without its name, version and times of effect."""
    body = {"rule_type": "threshold", "source_topic": STREAM, "conditions": draw(CONDITIONS), **draw(TIMES)}
    body |= draw(st.sampled_from([{}, {"entity": "account"}, {"group_by": ["place.city", "device"]}]))
    listed = {"rule_type": "list", "field": "kind", "list": "cash", "operator": draw(one_of_these(None, "not_in"))}
    return _given(body | draw(st.sampled_from([{}, {}, listed, {**listed, "conditions": None}])))


@st.composite
def _times(draw: st.DrawFn) -> Body:
    """Clock and lateness. Of the bounds on lateness the second is never the smaller."""
    delay_s, more_s = draw(one_of_these(0, 1, 2)), draw(one_of_these(0, 1, 3))
    if draw(st.booleans()):
        return {"time_mode": "processing_time"}
    return {
        "watermark_delay": f"{delay_s}s",
        "allowed_lateness": f"{delay_s + more_s}s",
        "late_policy": draw(one_of_these(None, "evaluate", "skip")),
    }


TIMES = _times()
STATUSES = st.sampled_from([[], [], [], ["shadow"], ["paused", "active"], ["active", "shadow"]])
STEPS_MS = one_of_these(0, 1000, 3000, 10_000, 30_000)


@cache
def _bodies(aggregates: tuple[str, ...]) -> st.SearchStrategy[Body]:
    kinds = (velocity_body(aggregates), velocity_body(aggregates), threshold_body(), formula_body())
    return st.one_of(*kinds, dormancy_body(), sequence_body(), absence_body())


@st.composite
def rule_sets(draw: st.DrawFn, max_rules: int = 4, aggregates: tuple[str, ...] = tuple(AGGREGATED)) -> list[Body]:
    """Rules in the order of their publication, some in several versions, some of these under several statuses."""
    bodies: list[Body] = []
    for number in range(draw(st.integers(1, max_rules))):
        effective_ms = None
        for version in range(1, draw(one_of_these(1, 1, 1, 2, 3)) + 1):
            body = draw(_bodies(aggregates))
            body |= {"rule_id": f"r{number}", "version": version}
            if effective_ms is not None:
                body["effective_from"] = effective_ms
            if draw(st.integers(0, 5)) == 0:
                body["status"] = "shadow"
            bodies.append(body)
            effective_ms = (effective_ms or START_MS) + draw(STEPS_MS)
            for status in draw(STATUSES):
                bodies.append({**body, "status": status, "effective_from": effective_ms})
                effective_ms += draw(STEPS_MS)
    return bodies


@st.composite
def cuts(draw: st.DrawFn, size: int, max_cuts: int = 5) -> list[tuple[int, int]]:
    """A stream of ``size`` records cut into batches ``[first, last)``, empty ones among them."""
    inner = sorted(draw(st.lists(st.integers(0, size), max_size=max_cuts)))
    return list(itertools.pairwise([0, *inner, size]))
