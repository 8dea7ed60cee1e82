"""The strategies reach what they are for, and the twin keeps the laws that any detection keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .conditions import ORDERINGS
from .naive import NaiveResult, naive_detect
from .strategies import LISTS, Body, Record, cuts, records, rule_sets

Scenario = tuple[list[Body], list[Record]]
SCENARIOS: st.SearchStrategy[Scenario] = st.tuples(rule_sets(), records())
# A record that comes again is judged or not as it is too late or not, so these laws are of new ids.
NEW_IDS: st.SearchStrategy[Scenario] = st.tuples(rule_sets(), records(repeats="none"))
DRAWN = 150


def run(scenario: Scenario) -> NaiveResult:
    rules, made = scenario
    return naive_detect(rules, made, lists=LISTS)


@pytest.fixture(scope="module")
def reached() -> Counter[str]:
    """How many of the drawn scenarios reach each thing of interest."""
    seen: Counter[str] = Counter()

    @settings(max_examples=DRAWN, database=None, derandomize=True)
    @given(SCENARIOS)
    def draw(scenario: Scenario) -> None:
        _, made = scenario
        result = run(scenario)
        marks: dict[str, Callable[[], bool]] = {
            "hits": lambda: bool(result.hits),
            "windows": lambda: any(hit.count > 2 for hit in result.hits),
            "floats": lambda: any(isinstance(hit.value, float) for hit in result.hits),
            "absences": lambda: any(hit.known_ms is not None for hit in result.hits),
            "sequences": lambda: any(hit.steps for hit in result.hits),
            "shadow": lambda: any(hit.kind == "shadow" for hit in result.hits),
            "versions": lambda: any(hit.version > 1 for hit in result.hits),
            "late": lambda: bool(result.late),
            "duplicates": lambda: bool(result.duplicates),
            "ties": lambda: len({r["_event_ms"] for r in made}) < len(made),
            "disorder": lambda: [r["_event_ms"] for r in made] != sorted(r["_event_ms"] for r in made),
        }
        seen.update(name for name, is_reached in marks.items() if is_reached())

    draw()
    return seen


@pytest.mark.xdist_group("drawn")  # what is drawn, once
@pytest.mark.parametrize(
    "name",
    [
        "hits",
        "windows",
        "sequences",
        "absences",
        "floats",
        "shadow",
        "versions",
        "late",
        "duplicates",
        "ties",
        "disorder",
    ],
)
def test_strategies_reach(reached: Counter[str], name: str) -> None:
    assert reached[name] >= DRAWN // 30, reached


@settings(max_examples=60, deadline=None)
@given(NEW_IDS)
def test_every_hit_says_why(scenario: Scenario) -> None:
    rules, made = scenario
    by_version = {(body["rule_id"], body["version"]): body for body in rules}
    hits = run(scenario).hits
    assert len({hit.alert_id for hit in hits}) == len(hits)
    for hit in hits:
        body = by_version[hit.rule_id, hit.version]
        assert made[hit.position]["_id"] == hit.record_id
        if body["rule_type"] == "velocity":
            assert ORDERINGS[body.get("operator", ">=")](hit.value, body["aggregation_threshold"])
            assert len(hit.evidence) == min(hit.count, 50)


@settings(max_examples=60, deadline=None)
@given(st.data(), SCENARIOS)
def test_the_future_changes_nothing(data: st.DataObject, scenario: Scenario) -> None:
    rules, made = scenario
    _, end = data.draw(cuts(len(made)))[0]
    whole, part = run(scenario), run((rules, made[:end]))
    clock_ms = max((record["_ingest_ms"] for record in made[:end]), default=0)
    known = [hit for hit in whole.hits if hit.known_ms is None or hit.known_ms <= clock_ms]
    assert part.hits == [hit for hit in known if hit.position < end]
    assert part.duplicates == [position for position in whole.duplicates if position < end]
    assert part.late == [position for position in whole.late if position < end]


@settings(max_examples=60, deadline=None)
@given(NEW_IDS)
def test_crossings_and_cooldowns_only_leave_hits_out(scenario: Scenario) -> None:
    rules, made = scenario
    every = [{name: value for name, value in body.items() if name != "cooldown"} | {"emit": "every"} for body in rules]
    fewer, all_hits = run(scenario).hits, run((every, made)).hits
    assert {hit.alert_id for hit in fewer} <= {hit.alert_id for hit in all_hits}


@settings(max_examples=60, deadline=None)
@given(NEW_IDS)
def test_rules_do_not_touch_each_other(scenario: Scenario) -> None:
    rules, made = scenario
    names = sorted({body["rule_id"] for body in rules})
    alone = [hit for name in names for hit in run(([b for b in rules if b["rule_id"] == name], made)).hits]
    assert sorted(h.alert_id for h in run(scenario).hits) == sorted(h.alert_id for h in alone)
