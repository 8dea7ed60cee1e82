from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import RefusedError
from crossline.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet, RuleVersion

from .rulekit import VELOCITY, rule, streams

ONE = """\
rule_id: {id}
version: {version}
rule_type: threshold
source_topic: payments
conditions: [{{field: amount_cents, operator: ">", value: {value}}}]
"""


def one(name: str, version: int = 1, value: int = 1) -> str:
    return ONE.format(id=name, version=version, value=value)


def indented(text: str) -> str:
    return "- " + text.replace("\n", "\n  ").rstrip(" ")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (one("a"), [1]),
        (indented(one("a")) + indented(one("b")), [1, 6]),
        (one("a") + "---\n" + one("b"), [1, 7]),
        (indented(one("a")) + "---\n" + indented(one("b")) + "---\n", [1, 7]),
        ("", []),
    ],
)
def test_one_rule_or_a_list_or_several_documents(text: str, lines: list[int]) -> None:
    loaded = load_rules_text(text, "r.yaml", streams())
    assert [item.line for item in loaded] == lines
    assert [item.rule.rule_id for item in loaded] == ["a", "b"][: len(lines)]
    assert {item.source for item in loaded} <= {"r.yaml"}


def test_one_version_has_one_body_in_a_file() -> None:
    text = indented(one("a")) + indented(one("a")) + indented(one("a", value=2)) + indented(one("a", 2, value=2))
    with pytest.raises(RefusedError) as caught:
        load_rules_text(text, "r.yaml", streams())
    assert [(p.line, p.path, p.expected) for p in caught.value.problems] == [
        (12, "[2].version", "its body of line 1, or a new version")
    ]


def test_problems_of_all_rules_are_reported_in_the_order_of_the_file() -> None:
    text = indented(one("a", value=2)).replace("amount_cents", "amount") + "- 5\n" + indented(one("B"))
    with pytest.raises(RefusedError) as caught:
        load_rules_text(text, "r.yaml", streams())
    assert [(p.line, p.path) for p in caught.value.problems] == [
        (5, "[0].conditions[0].field"),
        (6, "[1]"),
        (7, "[2].rule_id"),
    ]


def test_streams_need_not_be_known() -> None:
    assert load_rules_text(one("a").replace("amount_cents", "anything"), "r.yaml")[0].rule.rule_id == "a"


def versions(*bodies: dict[str, Any]) -> list[tuple[int, int, int, str]]:
    found = RuleSet.from_rules(rule({**VELOCITY, **body}) for body in bodies)
    return [(v.rule.version, v.effective_from_ms, v.effective_until_ms, v.kind) for v in found.versions]


def test_a_version_judges_until_the_next() -> None:
    assert versions({}) == [(1, BEGINNING_MS, FOREVER_MS, "active")]
    assert versions(
        {}, {"version": 2, "effective_from": 50}, {"version": 3, "effective_from": 90, "status": "shadow"}
    ) == [
        (1, BEGINNING_MS, 50, "active"),
        (2, 50, 90, "active"),
        (3, 90, FOREVER_MS, "shadow"),
    ]


def test_a_version_that_comes_first_and_counts_higher_takes_all() -> None:
    assert versions({"version": 2, "effective_from": 10}, {"version": 1, "effective_from": 20}) == [
        (2, 10, FOREVER_MS, "active")
    ]
    assert versions({"version": 1}, {"version": 2}) == [(2, BEGINNING_MS, FOREVER_MS, "active")]


def test_drafts_are_left_out_and_pauses_end_what_was() -> None:
    assert versions({}, {"version": 2, "effective_from": 5, "status": "draft"}) == [
        (1, BEGINNING_MS, FOREVER_MS, "active")
    ]
    assert versions({}, {"effective_from": 5, "status": "paused"}, {"effective_from": 9}) == [
        (1, BEGINNING_MS, 5, "active"),
        (1, 9, FOREVER_MS, "active"),
    ]
    assert versions({}, {"effective_from": 5, "status": "retired"}) == [(1, BEGINNING_MS, 5, "active")]


bodies = st.lists(
    st.fixed_dictionaries(
        {
            "version": st.integers(1, 4),
            "effective_from": st.integers(0, 20) | st.none(),
            "status": st.sampled_from(["draft", "shadow", "active", "paused", "retired"]),
        }
    ),
    max_size=6,
)


@given(bodies, st.integers(-1, 21))
def test_at_every_instant_the_last_body_in_force_judges(drawn: list[dict[str, Any]], ingest_ms: int) -> None:
    in_order = sorted((body for body in drawn if body["status"] != "draft"), key=lambda body: body["version"])
    in_force = [body for body in in_order if body["effective_from"] is None or body["effective_from"] <= ingest_ms]
    expected = [in_force[-1]["version"]] if in_force and in_force[-1]["status"] in {"active", "shadow"} else []
    found = RuleSet.from_rules(rule(VELOCITY, **body) for body in drawn)
    judging = [v.rule.version for v in found.versions if v.effective_from_ms <= ingest_ms < v.effective_until_ms]
    assert judging == expected


def test_two_bodies_of_one_version_are_refused() -> None:
    with pytest.raises(UsageError, match="version 1 stands there with two bodies"):
        RuleSet((RuleVersion(rule(VELOCITY)), RuleVersion(rule(VELOCITY, window="61s"))))


@given(bodies)
def test_a_set_survives_json(drawn: list[dict[str, Any]]) -> None:
    found = RuleSet.from_rules(rule(VELOCITY, **body) for body in drawn)
    again = RuleSet.from_json(found.to_json())
    assert again == found
    assert again.fingerprint == found.fingerprint
    assert again.to_json() == found.to_json()


def test_the_fingerprint_reports_sets_apart() -> None:
    sets = [
        RuleSet(),
        RuleSet.from_rules([rule(VELOCITY)]),
        RuleSet.from_rules([rule(VELOCITY, status="shadow")]),
        RuleSet.from_rules([rule(VELOCITY, effective_from=5)]),
        RuleSet.from_rules([rule(VELOCITY, window="61s")]),
    ]
    assert len({each.fingerprint for each in sets}) == len(sets)


def test_what_the_set_did_not_write_is_refused() -> None:
    with pytest.raises(UsageError):
        RuleSet.from_json(b'[{"rule": {"rule_type": "x"}, "from_ms": 0, "until_ms": 1, "kind": "active"}]')


def test_versions_that_ended_for_good_go_once_nothing_can_meet_them() -> None:
    pausing = {**VELOCITY, "rule_id": "pausing"}
    rules = RuleSet.from_rules(
        rule(body)
        for body in [
            {**VELOCITY, "rule_id": "next"},
            {**VELOCITY, "rule_id": "next", "version": 2, "effective_from": 1_000},
            pausing,
            {**pausing, "status": "paused", "effective_from": 1_000},
            {**VELOCITY, "rule_id": "over"},
            {**VELOCITY, "rule_id": "over", "status": "retired", "effective_from": 2_000},
        ]
    )
    assert [(v.rule.rule_id, v.rule.version, v.ended) for v in rules.versions] == [
        ("next", 1, True),
        ("next", 2, False),
        ("pausing", 1, False),
        ("over", 1, True),
    ]

    def left(gone_ms: dict[str, int]) -> list[tuple[str, int]]:
        return [(v.rule.rule_id, v.rule.version) for v in rules.without_past(gone_ms).versions]

    everything = [("next", 1), ("next", 2), ("pausing", 1), ("over", 1)]
    assert left({}) == left({"payments": 999}) == left({"another": 9_000}) == everything
    assert left({"payments": 1_000}) == [("next", 2), ("pausing", 1), ("over", 1)]
    assert left({"payments": 2_000}) == [("next", 2), ("pausing", 1)]
    assert RuleSet.from_json(rules.to_json()) == rules
