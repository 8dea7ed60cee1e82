from typing import Any

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
