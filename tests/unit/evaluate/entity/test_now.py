"""The current figures of a key, and the reasons for missing ones."""

from __future__ import annotations

from typing import Any

from tests.oracle.fastpath import FastPath, plans_of, stream_spec
from tests.oracle.strategies import START_MS, STREAM, Body, Record

from crossline.evaluate.entity.key_figures import CurrentFigure, Unanswered, figures_of_key

COUNT: Body = {
    "version": 1,
    "rule_type": "velocity",
    "source_topic": STREAM,
    "group_by": "account",
    "window": "1m",
    "aggregation_type": "count",
    "aggregation_threshold": 3,
}
MADE: list[Record] = [
    {
        "_id": f"t{number}",
        "_event_ms": START_MS + 1_000 * number,
        "_ingest_ms": START_MS + 1_000 * number,
        "account": account,
        "device": 7,
        "amount": 2**62,
    }
    for number, account in enumerate(["a", "b", "a", "a"])
]


def asked(
    rules: list[Body], field: str, value: str, made: list[Record] | None = None
) -> list[CurrentFigure | Unanswered]:
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), 1)
    path.batch([("log", list(enumerate(MADE if made is None else made)))])
    shard, found = path.shards[0], list[CurrentFigure | Unanswered]()
    for depth in range(1, max(plan.depth for plan in path.plans) + 1):
        found += figures_of_key(path.at(depth), shard.at(depth).state, field, value)
    return found


def shown(found: list[CurrentFigure | Unanswered]) -> list[Any]:
    return [
        (each.queried.rule_id, each.queried.name, each.value, each.count) if isinstance(each, CurrentFigure) else each
        for each in found
    ]


def test_rules_that_are_not_in_force_now_are_not_asked() -> None:
    rules: list[Body] = [
        {**COUNT, "rule_id": "old"},
        {**COUNT, "rule_id": "old", "version": 2, "window": "1s", "effective_from": START_MS + 3_000},
        {**COUNT, "rule_id": "later", "effective_from": START_MS + 3_001},
        {**COUNT, "rule_id": "paused"},
        {**COUNT, "rule_id": "paused", "status": "paused", "effective_from": START_MS + 2_000},
        {**COUNT, "rule_id": "beside", "status": "shadow", "group_by": ["account"]},
        {**COUNT, "rule_id": "pair", "group_by": ["account", "device"]},
        {"rule_id": "alone", "version": 1, "rule_type": "threshold", "source_topic": STREAM, "entity": "account"}
        | {"conditions": [{"field": "amount", "operator": ">", "value": 0}]},
    ]
    assert sorted(shown(asked(rules, "account", "a"))) == [("beside", "count", 3, 3), ("old", "count", 1, 1)]
    (version,) = {each.queried.version for each in asked(rules[:2], "account", "a") if isinstance(each, CurrentFigure)}
    assert version == 2


def test_a_figure_of_another_key_is_reported_of_that_key_and_missing_of_the_rules_own() -> None:
    figures = {
        "seen": {"count": True, "group_by": "account", "window": "1h"},
        "spent": {"figure": "spent_lately", "version": 3, "sum": "amount", "group_by": "device", "window": "1h"},
    }
    two: Body = {"rule_id": "two", "version": 1, "rule_type": "formula", "source_topic": STREAM, "figures": figures}
    two |= {"when": "seen >= 1 and spent > 7", "value": "spent"}
    why = Unanswered("two", "spent: of another key, which a record would say")
    assert shown(asked([two], "account", "b")) == [("two", "seen", 1, 1), why]
    assert shown(asked([two], "device", "7")) == [("two", "spent", 4 * 2**62, 4)], "beyond 64 bits"
    for unknown in ("8", "seven", "07", "1_0", str(2**70)):
        assert shown(asked([two], "device", unknown)) == [("two", "spent", 0, 0)]


def test_a_shared_figure_says_which_it_is() -> None:
    figure = {"figure": "spent_lately", "version": 3, "max": "amount", "group_by": "account", "window": "1h"}
    body: Body = {"rule_id": "one", "version": 1, "rule_type": "formula", "source_topic": STREAM}
    body |= {"figures": {"spent": figure}, "when": "spent >= 5", "value": "spent"}
    (found,) = asked([body], "account", "a")
    assert isinstance(found, CurrentFigure)
    assert (found.queried.name, found.queried.shared, found.value) == ("spent", "spent_lately", 2**62)
    line = found.queried.line
    assert line is not None
    assert (line.operator, line.threshold) == (">=", 5)


def test_a_rule_that_reads_alerts_is_asked_as_of_where_they_were_read() -> None:
    read = {**COUNT, "rule_id": "often", "source_topic": "rule:each", "aggregation_threshold": 9}
    found = asked([{**COUNT, "rule_id": "each", "emit": "every", "aggregation_threshold": 1}, read], "account", "a")
    assert shown(found) == [("each", "count", 3, 3), ("often", "count", 3, 3)]
    assert {each.now_ms for each in found if isinstance(each, CurrentFigure)} == {START_MS + 3_000}


def test_where_nothing_came_there_is_no_now() -> None:
    found = asked([{**COUNT, "rule_id": "each"}], "account", "a", [])
    assert found == [Unanswered("each", f"no record of {STREAM} came yet")]


def test_of_panes_what_is_settled_counts_with_what_is_not() -> None:
    """Ten hours of records, a minute apart, of which all but the last two minutes stand in panes."""
    made = [
        {"_id": f"t{n}", "_event_ms": START_MS + 60_000 * n, "_ingest_ms": START_MS + 60_000 * n, "account": "a"}
        for n in range(600)
    ]
    path = FastPath.of(
        plans_of(
            [{**COUNT, "rule_id": "long", "window": "3h", "resolution": "10m"}], stream_spec(ingest_column=True), {}
        ),
        1,
    )
    for start in range(0, 600, 50):
        path.batch([("log", list(enumerate(made))[start : start + 50])])
    (found,) = figures_of_key(path.plans, path.shards[0].state, "account", "a")
    now_ms = made[-1]["_ingest_ms"]
    start_ms = (now_ms - 3 * 3_600_000) // 600_000 * 600_000
    assert isinstance(found, CurrentFigure)
    assert (found.window_start_ms, found.window_end_ms) == (start_ms, now_ms)
    assert found.value == sum(start_ms <= one["_event_ms"] for one in made)
