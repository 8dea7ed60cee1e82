"""Alerts as lines: taken apart without being read, whatever stands in them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crossline.evaluate.alerts.alert_json import alert_lines, alerts_text, read_alerts
from crossline.evaluate.alerts.alert_lines import AlertLines, rule_ids

NAMES = st.one_of(st.text(max_size=6), st.sampled_from(["", ",\n", '",\n"', "]", "\\n", "\u2028"]))
INTEGERS = st.integers(-(2**70), 2**70)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
ALERTS = st.lists(
    st.fixed_dictionaries({"rule_id": NAMES, "value": INTEGERS, "message": NAMES, "record": VALUES}),
    max_size=4,
)


@given(ALERTS)
def test_lines_are_the_alerts_of_the_list(alerts: list[dict[str, Any]]) -> None:
    text = alerts_text(alerts)
    lines = alert_lines(text)
    assert [json.loads(line) for line in lines] == json.loads(text) == alerts
    assert len(read_alerts(text)) == len(alerts)


@given(st.lists(INTEGERS, max_size=4))
def test_alerts_of_lines_are_those_alerts(values: list[int]) -> None:
    alerts = [{"rule_id": f"r{number}", "value": value} for number, value in enumerate(values)]
    found = AlertLines(alert_lines(alerts_text(alerts)), [f"r{number}" for number in range(len(values))])
    assert (len(found), list(found), list(found[1:])) == (len(alerts), alerts, alerts[1:])
    assert list(rule_ids(found)) == list(rule_ids(alerts)) == [alert["rule_id"] for alert in alerts]
