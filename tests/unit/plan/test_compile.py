from typing import Any

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import parse_conditions
from crossline.basics.streams.schema import load_streams
from crossline.basics.times import BEGINNING_MS
from crossline.plan.compile import compile_stream, layout_of
from crossline.plan.lateness import LatenessInForce
from crossline.plan.state_stores import RETIRED, FilterSpec
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet

SPEC = load_streams(
    """
schema_version: 1
streams:
  s: {id: i, event_time: {field: t}, fields: {i: string, t: integer, k: string, m: string?, v: integer, w: integer?}}
""",
    "stream.yaml",
)["s"]
DEFAULTS = Defaults()
LATE = DEFAULTS.allowed_lateness_ms


def rules(*bodies: dict[str, Any]) -> RuleSet:
    common = {"version": 1, "rule_type": "velocity", "source_topic": "s", "aggregation_type": "count",
              "aggregation_threshold": 3, "window": "10s", "group_by": "k"}  # fmt: skip
    made = []
    for number, body in enumerate(bodies):
        rule, findings = read_rule({**common, "rule_id": f"r{number}", **body}, {"s": SPEC})
        assert rule is not None, findings
        made.append(rule)
    return RuleSet.from_rules(made)


def read_condition(field: str, operator: str) -> str:
    return Condition(parse_conditions([{"field": field, "operator": operator}])[0]).canonical


def test_rules_share_key_space_entry_cursor_and_group() -> None:
    plan = compile_stream(rules({}, {"aggregation_threshold": 9}, {"window": "1m"}), "s", SPEC, DEFAULTS)
    assert len(plan.state_stores) == 1
    kernel = plan.state_stores[0].plan
    assert (kernel.filters, len(kernel.windows), len(kernel.aggregates), len(kernel.lines)) == (1, 2, 2, 3)
    assert kernel.retention_ms == 60_000
    assert plan.accounting_store == 0


def test_a_field_that_every_record_has_makes_no_entry_of_its_own() -> None:
    of = {"aggregation_type": "sum"}
    plan = compile_stream(
        rules({}, {**of, "aggregation_field": "v"}, {**of, "aggregation_field": "w"}), "s", SPEC, DEFAULTS
    )
    assert plan.state_stores[0].state_store.filters == (FilterSpec("", None, LATE), FilterSpec("", "w", LATE))


def test_the_presence_of_a_required_field_makes_no_window_of_its_own() -> None:
    present = {"conditions": [{"field": "v", "operator": "exists"}]}
    maybe = {"conditions": [{"field": "w", "operator": "exists"}, {"field": "v", "operator": "exists"}]}
    plan = compile_stream(rules({}, present, maybe, {"conditions": maybe["conditions"][:1]}), "s", SPEC, DEFAULTS)
    store = plan.state_stores[0]
    assert len(store.state_store.filters) == 4  # as rules have them: the layout stays as it was
    windows = [store.plan.windows[store.plan.aggregates[line.aggregate].window] for line in store.plan.lines]
    assert windows[0] == windows[1] != windows[2] == windows[3]
    alone = compile_stream(rules(present), "s", SPEC, DEFAULTS).state_stores[0]
    assert [each.condition for each in alone.state_store.filters] == [read_condition("v", "exists")]
    in_panes = {**present, "window": "1d", "resolution": "1h"}
    panes = compile_stream(rules({**in_panes, "conditions": []}, in_panes), "s", SPEC, DEFAULTS).state_stores[0]
    assert len({line.filter_in(panes.plan) for line in panes.plan.lines}) == 2  # panes keep parts of each filter


def test_records_without_a_home_are_reported_by_id() -> None:
    plan = compile_stream(rules({"group_by": "m"}), "s", SPEC, DEFAULTS)
    assert [lp.state_store.group_fields for lp in plan.state_stores] == [("m",), ("i",)]
    assert plan.accounting_store == 1


def test_a_later_rule_goes_to_a_state_store_of_its_own_and_the_old_one_stays() -> None:
    before = compile_stream(rules({}), "s", SPEC, DEFAULTS)
    wider = rules({}, {"window": "1h"})
    after = compile_stream(wider, "s", SPEC, DEFAULTS, layout_of([before]))
    assert [lp.state_store.name for lp in after.state_stores] == ["s|event_time|k#0", "s|event_time|k#1"]
    assert [v.rule.rule_id for lp in after.state_stores for (v,) in lp.versions] == ["r0", "r1"]
    # The same set compiled afresh needs one state store only: state stores are a matter of history.
    assert len(compile_stream(wider, "s", SPEC, DEFAULTS).state_stores) == 1


def test_an_entry_that_lost_its_rule_is_never_used_again() -> None:
    dear = {"conditions": [{"field": "v", "operator": ">", "value": 5}]}
    both = compile_stream(rules({}, dear), "s", SPEC, DEFAULTS)
    one = compile_stream(rules({}), "s", SPEC, DEFAULTS, layout_of([both]))
    assert one.state_stores[0].state_store.filters == (FilterSpec("", None, LATE), RETIRED)
    again = compile_stream(rules({}, dear), "s", SPEC, DEFAULTS, layout_of([one]))
    assert [lp.state_store.name for lp in again.state_stores] == ["s|event_time|k#0", "s|event_time|k#1"]


def test_lateness_past_which_a_record_is_kept_apart() -> None:
    plan = compile_stream(rules({"allowed_lateness": "5m"}, {"allowed_lateness": "3m"}), "s", SPEC, DEFAULTS)
    assert plan.lateness == LatenessInForce((BEGINNING_MS,), (180_000,), (300_000,), (False,), 300_000)
