"""``correlation``: what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from .stream_joins import refused
from .test_correlation import OFF, velocity


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"window": None}, "window", "one window, such as 5m"),
        ({"window_size": 5}, "window", "both window and window_size"),
        ({"window": None, "window_size": 5}, "window_unit", "the unit of window_size"),
        ({"window": "0s"}, "window", "longer than 0"),
        ({"metric": "z_score"}, "context_resolution", "mean_std, which z_score needs"),
        ({"context_resolution": "mean_std"}, "context_resolution", "last or mean, for this metric"),
        ({"metric": "ratio"}, "metric", "ratio_deviation"),
        ({"event_value_field": None}, "event_value_field", "the field of the record that ratio_deviation holds"),
        ({"event_value_field": "country"}, "event_value_field", "integer or number"),
        ({"event_value_field": "raet"}, "event_value_field", "did you mean rate?"),
        ({"context_value_field": "type"}, "context_value_field", "integer or number"),
        ({"context_value_field": "raet"}, "context_value_field", "a field of stream fx_rates; did you mean rate?"),
        ({"context_topic": "fx_rate"}, "context_topic", "did you mean fx_rates?"),
        ({"context_topic": "rule:nobody"}, "context_topic", "the id of a rule"),
        ({"context_topic": "payments"}, "context_topic", "use anomaly or formula"),
        ({"correlation_key": ["currency_pair"]}, "correlation_key", "{primary: name, context: name}"),
        ({"correlation_key": {"primary": "currency_pair"}}, "correlation_key", "{primary: name, context: name}"),
        ({"correlation_key": "currency"}, "correlation_key", "a field of stream payments"),
        ({"correlation_key": "account"}, "correlation_key", "write {account: its name in fx_rates}"),
        ({"correlation_key": {"primary": "account", "context": "level"}}, "correlation_key", "type string"),
        ({"context_type_field": "type"}, "context_type_value", "both context_type_field and context_type_value"),
        ({"context_type_value": "spot"}, "context_type_field", "both context_type_field and context_type_value"),
        ({"context_type_field": "tpye", "context_type_value": "x"}, "context_type_field", "did you mean type?"),
        ({"context_type_field": "type", "context_type_value": 5}, "context_type_field", "type is of type string?"),
        ({"condition": "> 3"}, "condition", '{operator: ">", value: 0.02}'),
        ({"condition": {"operator": "=>", "value": 3}}, "condition.operator", ">="),
        ({"condition": {"operator": ">", "value": "3"}}, "condition.value", "a number"),
        ({"condition": {"operator": ">", "valeu": 3, "value": 3}}, "condition.valeu", "one of operator, value"),
        ({"max_context_age_seconds": 0}, "max_context_age_seconds", "greater than 0"),
        ({"min_context_points": 0}, "min_context_points", "greater than or equal to 1"),
        ({"velocity_filter_rule_id": "nobody"}, "velocity_filter_rule_id", "the id of a rule"),
        ({"velocity_filter_rule_id": "off"}, "velocity_filter_rule_id", "rules that do not read their own hits"),
        ({"timestamp_field": "came"}, "timestamp_field", "at, the event time of stream payments"),
        ({"resolution": "1s"}, "resolution", "no resolution here"),
        ({"description": "{contxet}"}, "description", "did you mean context?"),
        ({"conditions": [{"field": "level", "operator": ">", "value": 1}]}, "conditions[0].field", "stream payments"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], path: str, words: str) -> None:
    ((found, text),) = refused({name: value for name, value in {**OFF, **changes}.items() if value is not None})
    assert found == path
    assert words in text


def test_a_filter_of_another_stream_is_refused() -> None:
    rules = [velocity(), {**OFF, "source_topic": "logins", "velocity_filter_rule_id": "busy"}]
    ((path, text),) = refused(*rules)
    assert path == "[1].source_topic"
    assert "payments, whose records rule:busy is about" in text
