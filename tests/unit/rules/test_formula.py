"""``formula`` as a front-end: what its fields become, and what is refused."""

from typing import Any

import pytest

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, Leaf
from crossline.programs.program import Comparison, Emission, FeatureQuery, Feed, Figure, FormulaPredicate, Window
from crossline.rules.base import Defaults
from crossline.rules.types.formula import FormulaRule

from . import stream_joins
from .rulekit import findings_of, rule, streams
from .scenes import alerts

DECLINED = [{"field": "status", "operator": "==", "value": "declined"}]
TRIES = {"count": True, "group_by": "account_id", "window": "10m"}
FORMULA: dict[str, Any] = {
    "rule_id": "share",
    "version": 1,
    "rule_type": "formula",
    "source_topic": "payments",
    "figures": {
        "tries": TRIES,
        "declines": {"count": True, "group_by": "account_id", "window": "10m", "conditions": DECLINED},
        "silent": {"since": True, "group_by": "account_id", "window": "1d", "delay": "1h"},
        "run": {"streak": True, "group_by": "account_id", "window": "1d", "conditions": DECLINED, "bounds": "[)"},
        "usual": {"avg": "rate", "group_by": "account_id", "window": "30d", "include_current": False},
        "latest": {"max": "event_time", "group_by": "account_id", "window": "1d"},
    },
    "when": "tries >= 6 and declines / tries > 0.5 and amount_cents > 3 * usual and silent + run < latest",
}
ALL = Condition(AllOf(()))


def figure(**fields: Any) -> dict[str, Any]:
    given = {"group_by": "account_id", "window": "1m", **fields}
    return {**FORMULA, "figures": {"f": given}, "when": "f > 1"}


def test_the_plan_gets_all_it_needs() -> None:
    changes = {
        "emit": "every",
        "cooldown": "1h",
        "late_policy": "skip",
        "watermark_delay": "10s",
        "conditions": DECLINED,
    }
    program = rule(FORMULA, **changes).program(streams()["payments"], Defaults())
    met = Condition(AllOf((Leaf("status", "==", "declined"),)))
    key = ("account_id",)
    judged, every, declined = (Feed("payments", key, "event_time", c, 120_000) for c in (met, ALL, met))
    day, minute = 86_400_000, 60_000
    assert program.feed == judged
    assert program.figures == (
        Figure(every, "count", Window(10 * minute)),
        Figure(declined, "count", Window(10 * minute)),
        Figure(every, "avg", Window(30 * day, include_current=False), "rate", "float"),
        Figure(every, "since", Window(day, include_current=False, delay_ms=60 * minute)),
        Figure(every, "streak", Window(day, "[)", include_current=False), streak_of=met),
        Figure(every, "max", Window(day), "event_time", "int"),
    )
    assert isinstance(program.verdict, FormulaPredicate)
    assert program.verdict.names == ("tries", "declines", "usual", "silent", "run", "latest"), "as when names them"
    assert program.verdict.fields == ("amount_cents",)
    assert program.verdict.fixed_line == Comparison(">=", 6)
    assert program.emission == Emission(every=True, cooldown_ms=3_600_000, delivered=True)
    assert (program.reach_ms, program.window_ms, program.judge_lateness_ms) == (30 * day, 10 * minute, 10_000)


@pytest.mark.parametrize(
    ("value", "when", "shown"),
    [
        (None, "f >= 6 and amount_cents > 2", "f"),
        (None, "amount_cents / f > 0.5", "amount_cents / f"),
        (None, 'status == "x" and f > 2', None),
        (None, "missing(f)", None),
        ("amount_cents - f", "f > 5", "amount_cents - f"),
        ("f", "amount_cents > 5", "f"),
    ],
)
def test_the_value_is_the_left_side_of_the_first_comparison_unless_given(
    value: str | None, when: str, shown: str | None
) -> None:
    given = {**figure(count=True), "when": when, **({"value": value} if value else {})}
    program = rule(given).program(streams()["payments"], Defaults())
    assert isinstance(program.verdict, FormulaPredicate)
    found = program.verdict.value
    assert (found.canonical if found else None) == shown


def test_conditions_of_figures_are_the_rules_own() -> None:
    """Who looks for the lists that a rule needs, or bounds what it costs, must find them."""
    listed = [{"field": "status", "operator": "in", "value": {"list": "bad"}}]
    found = rule(
        {**FORMULA, "conditions": DECLINED, "figures": {"f": {**TRIES, "conditions": listed}}, "when": "f > 1"}
    )
    assert [condition.lists() for condition in found.all_conditions()] == [(), ("bad",)]


def test_kinds_of_figures_are_those_of_their_fields() -> None:
    """A maximum of timestamps that stream.yaml declares as integers is an integer; an average is a number."""
    for of in ({"max": "event_time"}, {"avg": "rate"}, {"since": True}, {"distinct_count": "status"}):
        assert not findings_of({**figure(**of), "when": "f > 0.5 and f < 10m"})
    ((path, text),) = findings_of({**figure(max="event_time"), "when": "hour(f) > 5"})
    assert path == "when"
    assert "type integer" in text


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        ({**FORMULA, "figures": {}}, "figures", "one or more figures"),
        ({**FORMULA, "figures": {"window": TRIES}, "when": "window > 1"}, "figures", "nothing else"),
        ({**FORMULA, "figures": {"A": TRIES}, "when": "A > 1"}, "figures", "letter"),
        ({**FORMULA, "figures": {"status": TRIES}, "when": "status > 1"}, "figures.status", "no field"),
        ({**FORMULA, "when": "tries > and"}, "when", "character"),
        ({**FORMULA, "when": "tries"}, "when", "true or false"),
        ({**FORMULA, "when": 'status == "a"', "value": "status"}, "value", "a number"),
        (figure(count=True, window="0s"), "figures.f.window", "a window"),
        (figure(count=True, sum="rate"), "figures.f", "count: true"),
        (figure(sum="status"), "figures.f.sum", "integer or number"),
        (figure(sum="tags"), "figures.f.sum", "integer or number"),
        (figure(count=True, group_by="tags"), "figures.f.group_by", "one value"),
        (figure(streak=True), "figures.f.conditions", "streak"),
        (figure(count=True, conditions=[{"field": "state", "operator": "exists"}]), "figures.f.conditions", "status"),
        (figure(quantile=0.5), "figures.f.quantile", "q: 0.99"),
        (figure(quantile={"field": "rate", "q": 0.5}), "figures.f.resolution", "a resolution such as 1h"),
        (figure(quantile={"field": "rate", "q": 1.5}, resolution="1m"), "figures.f.quantile.q", "at most 1"),
        (figure(quantile={"field": "status", "q": 0.5}, resolution="1m"), "figures.f.quantile", "integer or number"),
        (figure(count=True, resolution="1ms"), "figures.f.resolution", "at least 1 s"),
        (figure(count=True, resolution="2d"), "figures.f.resolution", "at most the window"),
        (figure(count=True, window="3650d", resolution="1s"), "figures.f.resolution", "a million panes"),
        ({**figure(count=True, resolution="1m"), "emit_mode": "window"}, "emit_mode", "records are not kept"),
        (figure(avg="rate", source_topic="rates"), "figures.f.source_topic", "the name of a stream: one of"),
        (figure(count=True, group_by={"account_id": "owner"}), "figures.f.group_by", "that have a source_topic"),
        ({**figure(count=True), "when": "amount_cents > 5"}, "figures.f", "that when or value names"),
        ({**FORMULA, "description": "{tries} of {nothing}"}, "description", "in braces"),
    ],
)  # fmt: skip
def test_what_is_refused(body: dict[str, Any], path: str, words: str) -> None:
    found = findings_of(body)
    assert found, "it is accepted"
    assert any(each.startswith(path) and words in text for each, text in found), found


def test_figures_of_several_keys_are_reported_by_theirs_and_supplied_to_its_own() -> None:
    other = {"count": True, "group_by": "merchant_id", "window": "10m"}
    body = {**FORMULA, "when": "tries > 1 and theirs > 5", "figures": {"theirs": other, "tries": TRIES}}
    program = rule(body).program(streams()["payments"], Defaults())
    assert program.feed.key_fields == ("account_id",), "that of the figure that when names first"
    assert isinstance(program.verdict, FormulaPredicate)
    assert program.verdict.names == ("tries",)
    (reported,) = program.cross_key
    assert reported.program.feed.key_fields == ("merchant_id",)
    assert reported.program.verdict == FeatureQuery(("theirs",), ("account_id",))
    assert reported.kinds == ("integer",)


def test_the_sentence() -> None:
    read = {"tries": 7, "declines": 5, "usual": None, "amount_cents": 12}
    sentence_fields = {"value": 7, "threshold": 6, "operator": ">=", "window_ms": 600_000, "key": {"account_id": "a1"}}
    plain = rule(FORMULA).sentence(**sentence_fields, count=7, evidence=read)
    assert plain == (
        "tries 7, declines 5, usual unknown, silent unknown, run unknown, latest unknown, amount_cents 12 by account a1"
    )
    known = rule(FORMULA).sentence(
        **sentence_fields, count=7, evidence={**read, "silent": 93 * 86_400_000, "usual": 10**300}
    )
    assert "usual 1.000e+300, silent 93 days, " in known
    described = rule(FORMULA, description="{declines} of {tries} in {window} by {account_id}, {amount_cents}")
    assert described.sentence(**sentence_fields, count=7, evidence=read) == "5 of 7 in 10 min by a1, 12"


def test_five_payments_in_four_countries_in_ten_minutes() -> None:
    """The article's own."""
    figures = {
        "payments": {"count": True, "group_by": "card", "window": "10m"},
        "countries": {"distinct_count": "country", "group_by": "card", "window": "10m"},
    }
    rule = {"rule_type": "formula", "figures": figures, "when": "payments >= 5 and countries >= 4"}
    places = ["NO", "SE", "NO", "DK", "FI", "NO"]
    (alert,) = alerts(rule, [{"s": 60 * n, "country": country} for n, country in enumerate(places)], batches=2)
    assert (alert["record_id"], alert["value"]) == ("n4", 5)
    assert alert["evidence"]["figures"]["countries"]["value"] == 4
    assert alerts(rule, [{"s": 180 * n, "country": country} for n, country in enumerate(places)]) == []


def test_three_failures_in_a_row_then_a_success() -> None:
    failed = [{"field": "status", "operator": "==", "value": "bad_cvv"}]
    streak = {"streak": True, "group_by": "card", "window": "10m", "conditions": failed, "include_current": False}
    rule = {"rule_type": "formula", "figures": {"failures": streak}, "when": "failures >= 3 and status == 'ok'"}
    lines = [("bad_cvv", 0), ("bad_cvv", 10), ("ok", 20), ("bad_cvv", 30), ("bad_cvv", 40), ("bad_cvv", 50), ("ok", 60)]
    (alert,) = alerts(rule, [{"s": at, "status": status} for status, at in lines])
    assert (alert["record_id"], alert["value"], alert["evidence"]["fields"]) == ("n6", 3, {"status": "ok"})


def test_alerts_beyond_what_64_bits_hold() -> None:
    rule = {
        "rule_type": "formula",
        "figures": {"spent": {"sum": "amount", "group_by": "card", "window": "10m"}},
        "when": "spent > 9223372036854775807 and amount > 0",
        "value": "spent - 1",
    }
    (alert,) = alerts(rule, [{"s": n, "amount": 2**62} for n in range(2)])
    assert alert["value"] == 2**63 - 1
    assert alert["evidence"]["figures"]["spent"]["value"] == 2**63


@pytest.mark.parametrize("apart", [False, True])
def test_figures_of_other_keys_come_to_the_record_that_they_are_of(*, apart: bool) -> None:
    """Also where two records have one id under keys of their own, and come in one batch."""
    body = {
        "rule_id": "both",
        "rule_type": "formula",
        "source_topic": "payments",
        "figures": {
            "tries": {"count": True, "group_by": "card", "window": "10m"},
            "takes": {"sum": "amount", "group_by": "account", "window": "10m"},
        },
        "when": "tries >= 1 and takes >= 0",
        "value": "takes",
        "emit": "every",
    }

    def found(*given: tuple[str, str, str, int]) -> list[tuple[str, str, int]]:
        rows = []
        for second, (name, card, account, amount) in enumerate(given):
            rows.append(stream_joins.row("payments", name, second, card=card, account=account, amount=amount))
            rows += [stream_joins.row("logins", f"l{second}", second, account="x", ok=True)] if apart else []
        found = stream_joins.alerts([body], rows)
        return sorted((each["record_id"], each["key"]["card"], each["value"]) for each in found)

    given = [("p1", "c1", "a1", 5), ("p1", "c2", "a2", 70), ("p2", "c2", "a2", 7)]
    assert found(*given) == [("p1", "c1", 5), ("p1", "c2", 70), ("p2", "c2", 77)]
    # To the account the second is the first one again: it has no figure there, and none of another record's.
    assert found(("p1", "c1", "a1", 5), ("p1", "c2", "a1", 70), ("p2", "c2", "a1", 7)) == [
        ("p1", "c1", 5),
        ("p2", "c2", 12),
    ]


@pytest.mark.parametrize(
    "spare",
    [
        {"avg": "rate", "source_topic": "rates", "group_by": "account_id", "window": "1h"},
        {"count": True, "group_by": "merchant_id", "window": "10d", "resolution": "1h"},
        {"sum": "amount_cents", "group_by": "account_id", "window": "90d"},
    ],
)
def test_a_figure_that_no_formula_names_changes_nothing(spare: dict[str, Any]) -> None:
    """Of another stream, another key or a longer window: the plan is that of the rule without it."""
    body = {**figure(count=True), "when": 'f > 1 and status != "spare"'}
    reported = rule({**body, "figures": {**body["figures"], "spare": spare}})
    assert isinstance(reported, FormulaRule)
    assert reported.unread_figures() == ("spare",)
    spec = streams()["payments"]
    assert reported.program(spec, Defaults()) == rule(body).program(spec, Defaults())
    assert reported.reading == rule(body).reading
