"""Formulas worked by hand, in both evaluators."""

from __future__ import annotations

import math
from typing import Any

import pytest

from crossline.basics.fields import FieldKind
from crossline.basics.formula.naive import value_of

from .formulakit import NAMES, by_columns, formula

BIG = 2**63 - 1
MONDAY_MS = 1_767_571_200_000  # 2026-01-05T00:00:00Z, a Monday
MARCH_29_MS = 1_774_746_000_000  # 2026-03-29T01:00:00Z, when clocks in Berlin go from 2 to 3
MISSING: dict[str, Any] = {}


def check_both(text: str, row: dict[str, Any], expected: Any, wanted: Any) -> None:
    of = formula(text, wanted)
    for found in (value_of(of.root, row), *by_columns(of, [row]), by_columns(of, [MISSING, row, MISSING])[1]):
        assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("tries >= 6 and declines / tries > 0.5", {"tries": 6, "declines": 4}, True),
        ("tries >= 6 and declines / tries > 0.5", {"tries": 6, "declines": 3}, False),
        ("tries >= 6 and declines / tries > 0.5", {"tries": 6}, False),
        ("amount_cents > 3 * usual", {"amount_cents": 301, "usual": 100.0}, True),
        ("amount_cents > 3 * usual", {"amount_cents": 300, "usual": 100.0}, False),
        ("amount_cents > 3 * usual", {"amount_cents": 301}, False),
        # a missing side makes any comparison false; `not` turns that round
        ("tries != 3", MISSING, False),
        ("not tries != 3", MISSING, True),
        ("tries not in (1, 2)", MISSING, False),
        ("not tries in (1, 2)", MISSING, True),
        ("tries == tries", MISSING, False),
        ("not card.present", MISSING, True),
        ("card.present or tries > 1", {"tries": 2}, True),
        ("card.present == false", MISSING, False),
        ("card.present == false", {"card.present": False}, True),
        ("missing(tries) and not missing(declines)", {"declines": 0}, True),
        ("missing(declines / tries)", {"declines": 1, "tries": 0}, True),
        ("missing(tries > 1)", MISSING, False),
        ("coalesce(tries, 7) == 7", MISSING, True),
        ("coalesce(status, device_id, 'none') == 'none'", MISSING, True),
        ("coalesce(status, device_id, 'none') == 'd'", {"device_id": "d"}, True),
        ("coalesce(card.present, true)", MISSING, True),
        # chained, nested, in brackets
        ("1 < tries <= declines < 5", {"tries": 2, "declines": 2}, True),
        ("1 < tries <= declines < 5", {"tries": 2, "declines": 5}, False),
        ("tries > 1 or declines > 1 and amount_cents > 1", {"tries": 2, "declines": 0, "amount_cents": 0}, True),
        ("(tries > 1 or declines > 1) and amount_cents > 1", {"tries": 2, "declines": 0, "amount_cents": 0}, False),
        ("not tries > 1 and declines > 1", {"tries": 0, "declines": 2}, True),
        ("not (tries > 1 and declines > 1)", {"tries": 2, "declines": 2}, False),
        ("tries in [1, 2]", {"tries": 2}, True),
        # integers and doubles are compared exactly
        ("tries > 9007199254740992.0", {"tries": 2**53 + 1}, True),
        ("tries == usual", {"tries": 2**53 + 1, "usual": 2.0**53}, False),
        ("tries == usual", {"tries": 2**53, "usual": 2.0**53}, True),
        ("tries < usual", {"tries": BIG, "usual": 2.0**63}, True),
        ("tries in (9007199254740992.0, 5)", {"tries": 2**53 + 1}, False),
        ("tries in (5.0, 0.5)", {"tries": 5}, True),
        ("usual in (9007199254740993, 5)", {"usual": 2.0**53}, False),
        # what leaves 64 bits stays exact on the way
        ("amount_cents * 3 > amount_cents", {"amount_cents": BIG}, True),
        ("amount_cents + 1 - 1 == amount_cents", {"amount_cents": BIG}, True),
        ("amount_cents * amount_cents // amount_cents in (1, 9223372036854775807)", {"amount_cents": BIG}, True),
        ("tries - amount_cents > 0", {"tries": 2, "amount_cents": -BIG}, True),
        ("amount_cents % declines * 4 > 0", {"amount_cents": BIG - 1, "declines": BIG}, True),
        ("max(tries, amount_cents) * 4 > 0", {"tries": 1, "amount_cents": BIG}, True),
        ("coalesce(tries, amount_cents) * 4 > 0", {"amount_cents": BIG}, True),
        ("round(usual) > 0", {"usual": 2.0**63}, True),
        ("tries in (5.5, 0.5)", {"tries": 5}, False),
        ("-amount_cents > 9223372036854775807", {"amount_cents": -(2**63)}, True),
        # texts: by code point, as Python has them
        ("status == 'it\\'s \"so\"'", {"status": 'it\'s "so"'}, True),
        ('status == "10m or 30s"', {"status": "10m or 30s"}, True),
        ("status < 'b'", {"status": "Z"}, True),
        ("status > '\uffff'", {"status": "\U0001f4b3"}, True),
        ("'a' < status < 'c'", {"status": "b"}, True),
        ("status in ('declined', 'refused')", {"status": "refused"}, True),
        ("status not in ('declined',)", {"status": "refused"}, True),
        ("'a' == 'a'", MISSING, True),
        ("'a' in ('b', 'c')", MISSING, False),
        ("größer and True", {"größer": True}, True),
        # durations
        ("event_time - 1000 < 10m", {"event_time": 600_999}, True),
        ("event_time - 1000 < 10m", {"event_time": 601_000}, False),
        ("1h30m == 90m and 1.5h == 90m and 1d == 24h and 2s == 2_000 and 200ms == 200", MISSING, True),
    ],
)
def test_verdicts(text: str, row: dict[str, Any], expected: bool) -> None:
    check_both(text, row, expected, "verdict")


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("1 + 2 * 3 - 4", MISSING, 3),
        ("-tries + +declines", {"tries": 2, "declines": 3}, 1),
        ("-(-5)", MISSING, 5),
        ("7 / 2", MISSING, 3.5),
        ("6 / 2", MISSING, 3.0),
        ("-7 // 2", MISSING, -4),
        ("-7 % 3", MISSING, 2),
        ("7 % -3", MISSING, -2),
        ("tries // 2.0", {"tries": -7}, -4.0),
        ("tries % 2.5", {"tries": -7}, 0.5),
        ("tries / 0", {"tries": 1}, None),
        ("tries // 0", {"tries": 1}, None),
        ("tries % 0", {"tries": 1}, None),
        ("usual / 0.0", {"usual": 1.0}, None),
        ("usual // 0.0", {"usual": 1.0}, None),
        ("usual % 0", {"usual": 1.0}, None),
        ("0 / 0", MISSING, None),
        ("usual * 10", {"usual": 1e308}, None),
        ("usual * 10 - usual * 10", {"usual": 1e308}, None),
        ("coalesce(usual * 10, 1)", {"usual": 1e308}, 1.0),
        ("coalesce(tries, usual)", {"tries": 3, "usual": 0.5}, 3.0),
        # beyond 64 bits: exact on the way, missing at the end; the nearest double where one is asked for
        ("amount_cents + 1", {"amount_cents": BIG}, None),
        ("amount_cents + 1.0", {"amount_cents": BIG}, 2.0**63),
        ("amount_cents - 1", {"amount_cents": -BIG}, -(2**63)),
        ("amount_cents * amount_cents % 1000", {"amount_cents": BIG}, BIG * BIG % 1000),
        ("amount_cents // -1", {"amount_cents": -(2**63)}, None),
        ("abs(amount_cents) / 2", {"amount_cents": -(2**63)}, 2.0**62),
        ("tries / declines", {"tries": 2**53 + 1, "declines": 3}, 3002399751580331.0),
        ("tries / declines", {"tries": BIG, "declines": BIG - 2**10}, BIG / (BIG - 2**10)),
        # functions
        ("abs(-3)", MISSING, 3),
        ("abs(usual)", {"usual": -0.5}, 0.5),
        ("min(tries, 3)", {"tries": 4}, 3),
        ("max(tries, 3.5, 1)", {"tries": 4}, 4.0),
        ("max(tries, 3)", MISSING, None),
        ("round(usual)", {"usual": 0.5}, 0),
        ("round(usual)", {"usual": 1.5}, 2),
        ("round(usual)", {"usual": -2.5}, -2),
        ("round(usual) % 10", {"usual": 1e22}, 0),
        ("round(usual) % 7", {"usual": 2.0**70}, 2**70 % 7),
        ("round(usual, 2)", {"usual": 2.675}, 2.67),
        ("round(usual, 0)", {"usual": 2.5}, 2.0),
        ("round(usual, 2)", {"usual": 1.005}, 1.0),
        ("round(usual, 2)", {"usual": 1.015}, 1.01),
        ("round(usual, 2)", {"usual": 0.125}, 0.12),
        ("round(usual, 15)", {"usual": 1e300}, 1e300),
        ("round(usual, 1)", {"usual": 1e308}, 1e308),
        ("round(tries, 2)", {"tries": 5}, 5),
        ("sqrt(tries)", {"tries": 9}, 3.0),
        ("sqrt(tries)", {"tries": -9}, None),
        ("log(tries)", {"tries": 1}, 0.0),
        ("log(usual)", {"usual": math.e}, 1.0),
        ("log(tries)", {"tries": 0}, None),
        ("log(tries)", {"tries": -1}, None),
        ("haversine_km(0, 0, 0, 0)", MISSING, 0.0),
        ("round(haversine_km(0, 0, 0, 180), 6)", MISSING, round(math.pi * 6371.0088, 6)),
        ("round(haversine_km(90, 0, -90, 33), 6)", MISSING, round(math.pi * 6371.0088, 6)),
        ("round(haversine_km(52.5200, 13.4050, 48.8566, 2.3522))", MISSING, 877),  # Berlin, Paris
        ("haversine_km(90.5, 0, 0, 0)", MISSING, None),
        ("haversine_km(location.lat, 0, 0, 0)", MISSING, None),
        # clocks
        ("hour(event_time)", {"event_time": MONDAY_MS + 3_600_000 * 23 + 3_599_999}, 23),
        ("weekday(event_time)", {"event_time": MONDAY_MS}, 0),
        ("weekday(event_time - 1)", {"event_time": MONDAY_MS}, 6),
        ("weekday(event_time, 'America/New_York')", {"event_time": MONDAY_MS}, 6),
        ("hour(event_time, 'America/New_York')", {"event_time": MONDAY_MS}, 19),
        ("hour(event_time, 'Europe/Berlin')", {"event_time": MARCH_29_MS - 1}, 1),
        ("hour(event_time, 'Europe/Berlin')", {"event_time": MARCH_29_MS}, 3),
        ("hour(event_time, 'Asia/Kolkata')", {"event_time": MONDAY_MS}, 5),
        ("weekday(event_time)", {"event_time": 0}, 3),
        ("hour(event_time)", {"event_time": -1}, 23),
        ("hour(event_time)", {"event_time": 253_402_300_800_000}, None),
        ("hour(event_time)", {"event_time": 253_402_300_799_999}, 23),
        ("hour(event_time, 'Asia/Kolkata')", {"event_time": 253_402_300_799_999}, None),
        ("hour(event_time, 'America/New_York')", {"event_time": -62_135_596_800_000}, None),
        ("hour(event_time, 'Asia/Kolkata')", {"event_time": -62_135_596_800_000}, 5),
        ("hour(event_time + 9223372036854775807)", {"event_time": 2**62}, None),
        ("hour(event_time + 9223372036854775807 - 9223372036854775807)", {"event_time": MONDAY_MS}, 0),
        ("hour(coalesce(event_time, 0))", MISSING, 0),
        ("event_time", {"event_time": MONDAY_MS}, MONDAY_MS),
    ],
)
def test_values(text: str, row: dict[str, Any], expected: Any) -> None:
    check_both(text, row, expected, "value")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("tries + 1", "integer"),
        ("tries / 1", "number"),
        ("tries * 0.5", "number"),
        ("event_time + 10m", "timestamp"),
        ("10m + event_time", "timestamp"),
        ("event_time - 10m", "timestamp"),
        ("event_time - event_time", "integer"),
        ("10m - event_time", "integer"),
        ("event_time * 2", "integer"),
        ("-event_time", "integer"),
        ("abs(event_time)", "integer"),
        ("max(event_time, 5)", "timestamp"),
        ("max(event_time, 0.5)", "number"),
        ("coalesce(tries, 0)", "integer"),
        ("round(usual)", "integer"),
        ("round(usual, 1)", "number"),
        ("round(tries, 1)", "integer"),
        ("sqrt(tries)", "number"),
        ("hour(event_time)", "integer"),
    ],
)
def test_kinds(text: str, kind: FieldKind) -> None:
    assert formula(text, "value").root.kind == kind


def test_nested_records_and_what_is_not_finite() -> None:
    of = formula("location.lat > 1 or missing(usual)")
    names = dict.fromkeys(NAMES)
    assert value_of(of.root, {"location": {"lat": 2.0}, "usual": 1.0}) is True
    assert value_of(of.root, {"location": {"lat": 1.0}, "usual": 1.0}) is False
    assert value_of(of.root, {**names, "usual": math.nan}) is True
    assert by_columns(of, [{"usual": math.nan}, {"usual": 1.0}]) == [True, False]


def test_an_infinite_figure_compares_as_what_it_is() -> None:
    """A sum beyond all numbers is above any line; what is reckoned with it has no answer."""
    rows: list[dict[str, Any]] = [{"usual": math.inf}, {"usual": -math.inf}, {"usual": 1.0}]
    for text, wanted in (
        ("usual > 1e300", [True, False, False]),
        ("usual < 0", [False, True, False]),
        ("coalesce(usual, 0.0) > 1e300", [True, False, False]),
        ("usual - 1 > 0 or usual * 0 == 0 or sqrt(usual) > 5 or round(usual) > 5", [False, False, True]),
        ("1 / usual == 0 or 1 // usual == 0 or 1 // usual == -1 or 1 % usual == 1", [False, False, False]),
        (
            "missing(1 / usual) and missing(1 // usual) and missing(1 % usual) and missing(usual / 2)",
            [True, True, False],
        ),
        ("missing(min(usual, 1)) and missing(max(1, usual)) and missing(min(0, 1, usual))", [True, True, False]),
        ("missing(-usual) and missing(abs(usual)) and missing(round(usual, 2))", [True, True, False]),
        ("min(usual, 1) == 1 or max(usual, 1) == 1 or -usual == -1", [False, False, True]),
        ("missing(usual)", [False, False, False]),
    ):
        of = formula(text)
        assert by_columns(of, rows) == wanted
        assert [value_of(of.root, {**dict.fromkeys(NAMES), **row}) for row in rows] == wanted


def test_the_least_integer_beside_one_that_is_missing() -> None:
    rows = [{"amount_cents": -(2**63)}, {"amount_cents": -(2**63) + 1}, {"amount_cents": BIG}]
    assert by_columns(formula("amount_cents - 1", "value"), rows) == [None, -(2**63), BIG - 1]
