"""What differs between a receipt and the log, and why: values made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from crossline.basics.times import BEGINNING_MS
from crossline.rule_registry.events import RuleEvent
from crossline.serve.ledger.comparison import RecordPlace, ReplayResult, differences
from crossline.serve.ledger.receipts import ChainHead, receipt_body

from .ledgerkit import BASIS, EVIDENCE, FIGURES, entry

DECIDED_MS = 1_767_225_660_000  # 2026-01-01T00:01:00Z
AT = "2026-01-01T00:01:00.000Z"
REASON = {"rule_id": "card_burst", "rule_version": 3, "action": "review", "score": 40, "alert_id": "a1"}


def receipt(**more: Any) -> dict[str, Any]:
    given = {"decision": "review", "reasons": [REASON], "policy_version": 2, "decided_at": AT, **more}
    return receipt_body(entry("t0", **given), ChainHead("a"), None)


def alert(ids: list[str], count: int = 10, **more: Any) -> dict[str, Any]:
    evidence = {"record_ids": ids, "count": count}
    return {**FIGURES["card_burst"], "evidence": evidence, "record_id": "t0", "alert_id": "a1", **more}


def again(**more: Any) -> ReplayResult:
    decided = {**receipt()["decision"], "ingest_time": AT}
    given = {"rules": BASIS.rules, "policy_version": 2, "policy_digest": BASIS.policy_digest}
    alerts = {"card_burst": alert(EVIDENCE["card_burst"]["record_ids"])}
    return ReplayResult(decided, **{**given, "alerts": alerts, **more})


def because(found: ReplayResult, **more: Any) -> list[tuple[str, list[str]]]:
    return [(each.what, list(each.because)) for each in differences(receipt(**more), found)]


def test_nothing() -> None:
    assert differences(receipt(), again()) == []


def test_a_figure_beyond_64_bits_is_as_receipts_have_it() -> None:
    figures = {"card_burst": {**FIGURES["card_burst"], "value": 2.0**65}}  # the float nearest to 2**65 + 1
    body = {"decision": "review", "reasons": [REASON], "policy_version": 2, "decided_at": AT}
    kept = receipt_body(replace(entry("t0", **body), figures=figures), ChainHead("a"), None)
    found = again(alerts={"card_burst": alert(EVIDENCE["card_burst"]["record_ids"], value=2**65 + 1)})
    assert differences(kept, found) == []
    (other,) = differences({**kept, "figures": []}, found)
    assert orjson.loads(orjson.dumps(other.to_json()))["log"] == 2.0**65


def test_a_record_that_pushes_the_first_of_many_out() -> None:
    """The alert names the last two of ten: t3 came in between, and t1 is no longer among the two."""
    found = again(
        alerts={"card_burst": alert(["t2", "t3"], 11, value=11)}, places={"t3": RecordPlace("in/1.jsonl", 1234)}
    )
    assert because(found) == [
        ("figure card_burst", ["record t3 counts in the log (in/1.jsonl, byte 1,234); the answer did not know of it"])
    ]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"looked": True}, "it is not in the log"),
        ({"looked": False}, "it does not count in the log"),
        ({"places": {"t1": RecordPlace("a", 0)}}, "it stands in the log (a, byte 0) and does not count there"),
    ],
)
def test_a_record_that_counts_no_more(found: dict[str, Any], text: str) -> None:
    (figure,) = because(again(alerts={"card_burst": alert(["t2"], 9, value=9)}, **found))
    assert figure == ("figure card_burst", [f"record t1 counted for the answer; {text}"])


KNOWN = BASIS.lists["watched"]


@pytest.mark.parametrize(
    ("versions", "shown"),
    [
        ([(BEGINNING_MS, KNOWN)], None),
        ([(BEGINNING_MS, "old"), (DECIDED_MS, KNOWN)], None),
        ([(BEGINNING_MS, KNOWN), (DECIDED_MS + 1, "new")], None),
        (
            [(BEGINNING_MS, KNOWN), (DECIDED_MS, "new")],
            [
                "list watched has another content for records ingested from 2026-01-01T00:01:00.000Z on",
                "rule log: list watched changed last at 2026-01-01T00:01:00.007Z, by eve",
            ],
        ),
        (
            [(BEGINNING_MS, "new")],
            [
                "no version of list watched in the rule log is the one that the answer knew",
                "rule log: list watched changed last at 2026-01-01T00:01:00.007Z, by eve",
            ],
        ),
    ],
)
def test_a_list_is_compared_as_it_is_at_the_record(versions: list[tuple[int, str]], shown: list[str] | None) -> None:
    """Whatever changed later; lists that no rule of the log reads are not compared."""
    event = RuleEvent("list_changed", DECIDED_MS + 7, list_name="watched", who="eve")
    found = because(again(lists={"watched": versions, "others": [(BEGINNING_MS, "x")]}, events=[event]))
    assert found == ([] if shown is None else [("list watched", shown)])


def test_a_model_is_compared_with_that_of_the_rules_in_force() -> None:
    same = dict(BASIS.models)
    assert because(again(models=same)) == []
    found = because(again(models={**same, "fraud.onnx": "other"}))
    assert [what for what, _ in found] == ["model fraud.onnx"]
    assert "score with another file of that name" in found[0][1][0]


def test_a_rule_whose_status_changed_since() -> None:
    paused = RuleEvent("status_changed", DECIDED_MS + 5, "card_burst", 3, "paused", DECIDED_MS, who="eve")
    published = RuleEvent("published", DECIDED_MS - 5, "card_burst", 3, "active", None)
    found = again(rules=[], alerts={}, events=[published, paused])
    found.decision = {**(found.decision or {}), "decision": "allow", "reasons": []}
    text = (
        "rule log: card_burst version 3 status_changed at 2026-01-01T00:01:00.005Z, status paused, effective from "
        "2026-01-01T00:01:00.000Z, by eve"
    )
    assert because(found) == [
        ("rule card_burst", [text]),
        ("figure card_burst", []),
        ("decision", [text]),
        ("reasons", [text]),
    ]


def test_a_rule_that_came_just_before_the_answer_is_named_by_its_publication() -> None:
    """What happened to its file later changed no verdict."""
    published = RuleEvent("published", DECIDED_MS - 5, "late_rule", 1, "active", DECIDED_MS - 60_000)
    absent = RuleEvent("absent", DECIDED_MS + 5, "late_rule", 1, text="late_rule stands in no file any more")
    more = {"rule_id": "late_rule", "version": 1, "digest": "d"}
    found = again(rules=[*BASIS.rules, more], events=[published, absent])
    text = (
        "rule log: late_rule version 1 published at 2026-01-01T00:00:59.995Z, status active, effective from "
        "2026-01-01T00:00:00.000Z"
    )
    assert because(found)[0] == ("rule late_rule", [text])


def test_a_rule_that_the_log_does_not_know() -> None:
    assert because(again(rules=[]))[0] == ("rule card_burst", ["the rule log knows no rule card_burst"])


def test_a_fallback_is_held_against_the_decision_alone() -> None:
    degraded = [{"part": "rule:card_burst", "why": "its model failed"}, "late"]
    found = because(again(rules=[]), answered="fallback", decision="allow", degraded=degraded)
    text = "the policy's fallback answered, since the record could not be judged in time"
    assert found == [("decision", [f"{text} (rule:card_burst: its model failed; late)"])]
    assert because(again(rules=[]), answered="fallback", degraded=degraded) == []


def test_what_the_pipeline_answered_itself_is_held_against_the_decision() -> None:
    """Such a receipt names no rules and no figures but the digest of the rules, which the decision has."""
    body = {**receipt(answered="exact", rules_digest="r"), "rules": [], "policy_digest": None, "figures": []}
    same, other = again(), again()
    same.decision = {**(same.decision or {}), "rules_digest": "r"}
    assert differences(body, same) == []
    other.decision = {**same.decision, "rules_digest": "other", "decision": "block"}
    assert [each.what for each in differences(body, other)] == ["decision", "rules_digest"]


def test_revisions_one_after_the_other() -> None:
    """A correction names its cause; of an alert that was raised late the record behind it in the log is the cause."""
    given = {"rule_id": "card_burst", "rule_version": 3, "record_id": "t0", "record_ids": ["t0"]}
    retracted = {**given, "alert_id": "c1", "corrects": "a1", "outcome": "retracted", "caused_by": "t8"}
    raised = {**given, "alert_id": "a2", "corrects": None, "record_ids": ["t0", "t9"]}
    places = {"t0": RecordPlace("a", 10), "t9": RecordPlace("a", 90), "t8": RecordPlace("a", 80)}
    first = {"revision": 1, "decision": "allow", "score": 0, "reasons": [], "because": "c1"}
    second = {"revision": 2, "decision": "block", "score": 9, "reasons": [{"alert_id": "a2"}], "because": "a2"}
    found = again(revisions=[first, second], raised={"c1": retracted, "a2": raised}, places=places)
    one, two = differences(receipt(), found)
    assert (one.receipt["decision"], one.log, two.receipt, two.log) == (
        "review",
        {"decision": "allow", "score": 0},
        {"decision": "allow", "score": 0},
        {"decision": "block", "score": 9},
    )
    rule = "the alert of card_burst@3 on record t0"
    assert one.because == (f"revision 1 of the decision: {rule} was retracted because of record t8 (a, byte 80)",)
    assert two.because == (f"revision 2 of the decision: {rule} was raised late because of record t9 (a, byte 90)",)


def test_no_decision_at_all() -> None:
    found = ReplayResult(missing="the log refuses the record: duplicate, known")
    (only,) = differences(receipt(), found)
    assert (only.what, only.receipt, only.log, only.because) == ("record", "t0", None, (found.missing,))
