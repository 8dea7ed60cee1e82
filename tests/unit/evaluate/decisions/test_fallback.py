"""The policy's fallback: what it decides, against worked examples and a naive twin; what it refuses, word for word."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.conditions.lists import NamedList, named_lists
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.texts.problems import RefusedError, render
from crossline.rules.policy.fallback import Fallback, FallbackDecision, fallback_problems
from crossline.rules.policy.policy import Deciding, Policy, load_policy
from crossline.settings.config import load_pipeline

GOLDEN = Path(__file__).parents[3] / "golden" / "fallback"
HEAD = "schema_version: 1\nversion: 2\n"
STREAMS = """\
schema_version: 1
streams:
  payments:
    id: transaction_id
    event_time: {field: event_time}
    fields:
      transaction_id: string
      event_time: timestamp
      amount_cents: integer
      merchant_id: string?
      risk: number?
      present: boolean?
      tags: "[string]?"
      location: {country: string?}
  transfers:
    id: transfer_id
    event_time: {field: event_time}
    fields: {transfer_id: string, event_time: timestamp, iban: string, merchant_id: integer}
"""
# Digests of these policies as they were before there was a fallback: checkpoints and receipts name them.
OLD = {
    "schema_version: 1\nversion: 7": "5665cfb187e93d91b20b70d9589ff211e63516158604cf515edbd56bc6f2c7f6",
    """\
schema_version: 1
version: 2
score: max
decide:
  - {when: rules.card_burst and tags.web > 1, decision: block}
  - {when: "rules.a.b or not rules.card_burst", decision: review}
bands: [{from: 80, decision: block}, {from: 40, decision: review}]
""": "9f5078ca7fba6453a017e0b4f0a5197210bbe60251761b7914b392c7a8113244",
}
EXAMPLE = "[{when: amount_cents > 50000, decision: review}, {decision: allow}]"
NOW = 1_767_225_607_120


def streams() -> dict[str, StreamSpec]:
    return load_streams(STREAMS, "stream.yaml")


def policy(fallback: str) -> Policy:
    return load_policy(f"{HEAD}fallback: {fallback}\n", "policy.yaml")


def fallback_of(text: str, stream: str = "payments") -> Fallback:
    return Fallback.of(policy(text).fallback, stream, streams())


def test_the_example_of_the_docs() -> None:
    fallback = fallback_of(EXAMPLE)
    assert fallback.decide({"amount_cents": 50_001}, {}, NOW) == ("review", 0, "fallback[0]: amount_cents > 50000")
    assert fallback.decide({"amount_cents": 50_000}, {}, NOW) == ("allow", 1, "fallback[1]: every record")


@pytest.mark.parametrize("text", OLD)
def test_a_policy_without_a_fallback_has_the_digest_that_it_always_had(text: str) -> None:
    known = load_policy(text, "policy.yaml")
    assert known.digest == OLD[text]
    assert load_policy(f"{text}\nfallback: []\n", "policy.yaml").digest == OLD[text]
    assert "fallback" not in known.to_json()


def test_the_fallback_is_part_of_the_digest_and_travels() -> None:
    known = policy(EXAMPLE)
    assert known.digest != load_policy(HEAD, "policy.yaml").digest
    assert known.digest != policy(EXAMPLE.replace("50000", "50001")).digest
    again = Deciding.from_json(Deciding(known).to_json()).policy
    assert (again, again.digest) == (known, known.digest)


def test_no_fallback_and_none_that_holds_are_reviews() -> None:
    assert Fallback.of([], "payments", streams()).decide({}, {}, NOW) == (
        "review",
        None,
        "the policy has no fallback",
    )
    fallback = fallback_of("[{when: amount_cents < 10, decision: allow}]")
    assert fallback.decide({"amount_cents": 10}, {}, NOW) == ("review", None, "no branch of the fallback holds")


LISTED = (
    "[{conditions: [{field: merchant_id, operator: in, value: {list: watched}}], decision: block},"
    " {when: amount_cents > 100, conditions: [{field: location.country, operator: not_in, value: {list: home}}],"
    " decision: step_up}, {decision: allow}]"
)


def test_lists_are_read_as_of_the_ingest_time() -> None:
    watched = NamedList().then([("m1", NOW + 10)], {}).then([("m2", 2**62)], {"payments": NOW + 5})
    lists = {"watched": watched, **named_lists({"home": ["NO"]})}
    fallback = fallback_of(LISTED)
    assert fallback.lists == ("home", "watched")

    def decided(merchant: str | None, at_ms: int) -> str:
        return fallback.decide({"merchant_id": merchant, "amount_cents": 1}, lists, at_ms).decision

    assert [decided("m1", NOW), decided("m1", NOW + 4), decided("m1", NOW + 5)] == ["block", "block", "allow"]
    assert [decided("m2", NOW + 4), decided("m2", NOW + 5), decided(None, NOW)] == ["allow", "block", "allow"]


def test_the_example_of_semantics_md() -> None:
    page = (Path(__file__).parents[4] / "docs" / "semantics.md").read_text(encoding="utf-8")
    text = page.partition("## The fallback")[2].partition("```yaml\n")[2].partition("```")[0]
    branches = load_policy(text, "policy.yaml").fallback
    fallback, lists = Fallback.of(branches, "payments", streams()), named_lists({"blocked": ["m9"]})
    assert fallback.decide({"merchant_id": "m9", "amount_cents": 1}, lists, NOW).decision == "block"
    assert fallback.decide({"merchant_id": "m1", "amount_cents": 50_001}, lists, NOW).decision == "review"
    assert fallback.decide({"amount_cents": 1}, lists, NOW).decision == "allow"
    assert fallback.decide({"amount_cents": 1}, {}, NOW).decision == "review"


def test_nested_and_flat_fields_are_the_same_and_both_parts_of_a_branch_must_hold() -> None:
    lists = named_lists({"watched": [], "home": ["NO", 1, True]})
    fallback = fallback_of(LISTED)
    for where in ({"location": {"country": "SE"}}, {"location.country": "SE"}, {}, {"location": "SE"}):
        assert fallback.decide({"amount_cents": 101, **where}, lists, NOW).branch == 1
        assert fallback.decide({"amount_cents": 100, **where}, lists, NOW).branch == 2
    assert fallback.decide({"amount_cents": 101, "location": {"country": "NO"}}, lists, NOW).branch == 2


def test_a_list_that_is_not_there_is_no_allow() -> None:
    lists = named_lists({"home": ["NO"]})
    found = fallback_of(LISTED).decide({"merchant_id": "m1", "amount_cents": 1}, lists, NOW)
    assert found == ("review", None, "fallback[0] reads list watched, which is not there")
    assert policy(LISTED).unknown_lists(["home"]) == ["watched"]


def test_a_large_list_is_indexed_once() -> None:
    named = named_lists({"watched": [f"m{number}" for number in range(50_000)], "home": []})
    fallback = fallback_of(LISTED)
    fallback.prepare(named)
    asked = [fallback.decide({"merchant_id": f"m{number}"}, named, NOW).decision for number in range(49_000, 51_000)]
    assert asked == ["block"] * 1_000 + ["allow"] * 1_000
    changed = {**named, "watched": named["watched"].then([("m9", 2**62)], {"payments": NOW})}
    assert [fallback.decide({"merchant_id": name}, changed, NOW).decision for name in ("m9", "m1")] == [
        "block",
        "allow",
    ]
    assert fallback.decide({"merchant_id": "m1"}, changed, NOW - 1).decision == "block"
    assert fallback.decide({"merchant_id": "m1"}, named, NOW).decision == "block"


def test_a_field_that_only_another_stream_has_is_missing_here() -> None:
    text = "[{when: missing(iban) and amount_cents > 5, decision: review}, {when: \"iban == 'NO1'\", decision: block}]"
    assert fallback_of(text).decide({"amount_cents": 6}, {}, NOW).decision == "review"
    assert fallback_of(text, "transfers").decide({"iban": "NO1"}, {}, NOW).decision == "block"


def test_timestamps_are_instants_however_they_are_written() -> None:
    fallback = fallback_of("[{when: hour(event_time) < 6, decision: review}, {decision: allow}]")
    for written in ("2026-01-01T05:59:59Z", 1_767_247_199_000):
        assert fallback.decide({"event_time": written}, {}, NOW).decision == "review"
    for written in ("2026-01-01T06:00:00Z", 1_767_247_200_000, "today", None, 1.5):
        assert fallback.decide({"event_time": written}, {}, NOW).decision == "allow"


# The text of a branch, and its meaning in plain Python.
Part = tuple[str | None, Any, Callable[[dict[str, Any]], bool]]


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def real(value: Any) -> bool:
    return whole(value) or (isinstance(value, float) and not math.isnan(value))


def over(limit: int) -> Part:
    return f"amount_cents > {limit}", None, lambda r: whole(r.get("amount_cents")) and r["amount_cents"] > limit


def other_than(name: str) -> Part:
    def holds(r: dict[str, Any]) -> bool:
        return isinstance(r.get("merchant_id"), str) and r["merchant_id"] not in {name, "\ud800"}

    return f"merchant_id != '{name}'", None, holds


def not_under(limit: int) -> Part:
    def holds(r: dict[str, Any]) -> bool:
        return not (whole(r.get("amount_cents")) and r["amount_cents"] < limit)

    return f"not amount_cents < {limit}", None, holds


def no_risk() -> Part:
    return "missing(risk)", None, lambda r: not real(r.get("risk"))


def risky(limit: int) -> Part:
    leaf = {"field": "risk", "operator": ">=", "value": limit}
    return None, [leaf], lambda r: real(r.get("risk")) and r["risk"] >= limit


def present(wanted: bool) -> Part:
    return None, [{"field": "present", "operator": "==", "value": wanted}], lambda r: r.get("present") is wanted


def listed(operator: str) -> Part:
    def holds(r: dict[str, Any]) -> bool:
        value = r.get("merchant_id")
        stands = isinstance(value, str) and value in {"m1", "1"}
        return stands == (operator == "in")

    return None, [{"field": "merchant_id", "operator": operator, "value": {"list": "watched"}}], holds


def counted() -> Part:
    def holds(r: dict[str, Any]) -> bool:
        value = r.get("amount_cents")
        return whole(value) and value in {1, 700}

    return None, [{"field": "amount_cents", "operator": "in", "value": {"list": "watched"}}], holds


def tagged() -> Part:
    def holds(r: dict[str, Any]) -> bool:
        return isinstance(r.get("tags"), list) and any(each == "web" for each in r["tags"])

    return None, [{"field": "tags", "operator": "contains", "value": "web"}], holds


LIMITS = st.sampled_from([0, 1, 50_000, 2**62, -5])
PARTS = st.one_of(
    LIMITS.filter(lambda n: n >= 0).map(over),
    st.sampled_from(["m1", "1", ""]).map(other_than),
    LIMITS.filter(lambda n: n >= 0).map(not_under),
    st.just(no_risk()),
    LIMITS.map(risky),
    st.booleans().map(present),
    st.sampled_from(["in", "not_in"]).map(listed),
    st.just(counted()),
    st.just(tagged()),
)
BRANCH = st.tuples(st.lists(PARTS, min_size=1, max_size=3), st.sampled_from(["allow", "review", "step_up", "block"]))
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 700, 50_000, 50_001, 2**63, 10**30, -(10**400), 10**400]),
    st.floats(),
    st.sampled_from(["", "1", "m1", "m2", "\ud800", "x" * 1_000]),
    st.sampled_from([[], ["web"], ["m1", 3, None], {}, {"a": {"b": 1}}, "web"]),
)
NAMES = ["amount_cents", "merchant_id", "risk", "present", "tags", "event_time", "location", "other"]
RECORDS = st.dictionaries(st.sampled_from(NAMES), ODD)
LISTS = named_lists({"watched": ["m1", "1", 1, 700.0, True]})


@given(st.lists(BRANCH, max_size=4), st.sampled_from([None, "allow", "block"]), st.lists(RECORDS, max_size=8))
def test_it_says_what_a_naive_twin_says(
    branches: list[tuple[list[Part], str]], last: str | None, records: list[dict[str, Any]]
) -> None:
    written = []
    for parts, decision in branches:
        whens = [when for when, _, _ in parts if when is not None]
        conditions = [each for _, leaves, _ in parts for each in leaves or []]
        branch: dict[str, Any] = {"decision": decision}
        branch |= {"when": " and ".join(whens)} if whens else {}
        branch |= {"conditions": conditions} if conditions else {}
        written.append(branch)
    written += [{"decision": last}] if last else []
    fallback = fallback_of(yaml.safe_dump(written, default_flow_style=True, width=10_000))
    for record in records:
        number = next((n for n, (parts, _) in enumerate(branches) if all(holds(record) for _, _, holds in parts)), None)
        if number is not None:
            expected: tuple[str, int | None] = (branches[number][1], number)
        else:
            expected = (last, len(branches)) if last else ("review", None)
        found = fallback.decide(record, LISTS, NOW)
        assert isinstance(found, FallbackDecision)
        assert (found.decision, found.branch) == expected


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_report_of(path: Path) -> None:
    text = path.read_text()
    try:
        report = render(fallback_problems(text, path.name, load_policy(text, path.name).fallback, streams())) + "\n"
    except RefusedError as error:
        report = f"{error}\n"
    expected = path.with_suffix(".txt")
    if not expected.exists():
        expected.write_text(report)
        pytest.fail(f"wrote {expected}; read it, and run again")
    assert report == expected.read_text()


PIPELINE = """\
schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: files, path: in/*.jsonl}}
rules: {kind: directory, path: rules/}
sinks: [{kind: jsonl, path: a.jsonl, decisions: d.jsonl}]
policy: policy.yaml
"""


def test_a_pipeline_is_refused_whose_fallback_names_no_field_of_its_streams() -> None:
    files = {"stream.yaml": STREAMS, "policy.yaml": f"{HEAD}fallback:\n  - {{when: amount > 5, decision: review}}\n"}
    with pytest.raises(RefusedError) as caught:
        load_pipeline(PIPELINE, "pipeline.yaml", files.__getitem__)
    (problem,) = caught.value.problems
    assert (problem.source, problem.line, problem.path) == ("policy.yaml", 4, "fallback[0].when")
    files["policy.yaml"] = files["policy.yaml"].replace("amount >", "amount_cents >")
    loaded = load_pipeline(PIPELINE, "pipeline.yaml", files.__getitem__).policy
    assert loaded is not None
    assert len(loaded.fallback) == 1


def test_a_fallback_compares_sensitive_fields_with_tokens_alone() -> None:
    streams = """schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account: string}
    sensitive: {account: {}}
"""
    files = {
        "stream.yaml": streams,
        "policy.yaml": f"{HEAD}fallback:\n  - when: account == 'bob'\n    decision: allow\n",
    }
    with pytest.raises(RefusedError) as caught:
        load_pipeline(PIPELINE, "pipeline.yaml", files.__getitem__)
    (problem,) = caught.value.problems
    assert (problem.source, problem.line, problem.path) == ("policy.yaml", 4, "fallback[0].when")
    assert problem.found == "a value that is no token, since account is sensitive"
    assert "bob" not in str(caught.value)
    files["policy.yaml"] = files["policy.yaml"].replace("bob", "tok_" + "a" * 24)
    loaded = load_pipeline(PIPELINE, "pipeline.yaml", files.__getitem__).policy
    assert loaded is not None
