"""The naive reading of conditions against answers worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from .conditions import holds

CARD = {"amount": 5, "fee": 5, "type": "CSH", "tags": ["new", "web"], "location": {"lat": 1.5}, "note": None}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"field": "amount", "operator": "between", "value": [5, 6]}, True),
        ({"field": "amount", "operator": "between", "value": [6, 7]}, False),
        ({"field": "amount", "operator": "==", "value": {"field": "fee"}}, True),
        ({"field": "amount", "operator": "<", "value": {"field": "fee"}}, False),
        ({"field": "amount", "operator": "!=", "value": {"field": "note"}}, True),
        ({"field": "amount", "operator": "==", "value": {"field": "note"}}, False),
        ({"field": "type", "operator": "in", "value": ["CSH", "POS"]}, True),
        ({"field": "type", "operator": "in", "value": {"list": "cash"}}, True),
        ({"field": "type", "operator": "not_in", "value": {"list": "cash"}}, False),
        ({"field": "type", "operator": "contains", "value": "S"}, True),
        ({"field": "tags", "operator": "contains", "value": "web"}, True),
        ({"field": "type", "operator": "starts_with", "value": "CS"}, True),
        ({"field": "type", "operator": "ends_with", "value": "CS"}, False),
        ({"field": "type", "operator": "regex", "value": "^C.H$"}, True),
        ({"field": "type", "operator": "regex", "value": "H"}, True),  # found anywhere
        ({"field": "location.lat", "operator": ">", "value": 1}, True),
        ({"field": "location.lon", "operator": "exists"}, False),
        ({"field": "note", "operator": "missing"}, True),
        ({"field": "note", "operator": "!=", "value": "x"}, True),
        ({"field": "note", "operator": "not_in", "value": ["x"]}, True),
        ({"field": "note", "operator": "starts_with", "value": ""}, False),
        ({"not": {"field": "note", "operator": "==", "value": "x"}}, True),
        ({"any": [{"field": "note", "operator": "exists"}, {"field": "fee", "operator": ">=", "value": 5}]}, True),
        ({"all": [{"field": "note", "operator": "missing"}, {"field": "fee", "operator": ">", "value": 5}]}, False),
        ([{"field": "fee", "operator": "<=", "value": 5}, {"not": [{"field": "note", "operator": "exists"}]}], True),
        ([], True),
    ],
)
def test_conditions(condition: Any, expected: bool) -> None:
    assert holds(condition, CARD, {"cash": ["CSH"]}) is expected
