import hashlib
import random
import uuid
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.evaluate.decisions.decision import Decision, RulesInForce, decide
from crossline.rules.policy.hits import DecidedRecord, DecidingHit, hit_of
from crossline.rules.policy.policy import Policy, load_policy
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from oracle.decisions import ACTIONS, SEVERITIES, WHENS, naive_decision

RECORD = DecidedRecord("payments", "t0000007", 1_767_225_607_120, 1_767_225_607_180)


def policy(**fields: Any) -> Policy:
    return load_policy(yaml.safe_dump({"schema_version": 1, "version": 2, **fields}), "policy.yaml")


def hit(rule_id: str, action: str = "review", score: int = 0, severity: str = "medium", *tags: str) -> DecidingHit:
    return DecidingHit(rule_id, 1, action, score, severity, tags, f"alert of {rule_id}", f"{rule_id} said so")


def decision_of(given_policy: Policy, *hits: DecidingHit) -> str:
    return decide(given_policy, RECORD, hits).decision


def test_without_branches_and_bands_the_gravest_action_counts() -> None:
    assert decision_of(policy()) == "allow"
    assert decision_of(policy(), hit("a", "allow", 100)) == "allow"
    assert decision_of(policy(), hit("a", "step_up"), hit("b", "review", 100)) == "step_up"
    assert decision_of(policy(), hit("a", "block"), hit("b", "step_up", 100)) == "block"


def test_the_first_branch_that_holds_decides() -> None:
    decides = policy(
        decide=[
            {"when": "rules.known_device and hits == 2", "decision": "allow"},
            {"when": "severity == 'critical'", "decision": "block"},
            {"when": "hits >= 2", "decision": "step_up"},
        ]
    )
    assert decision_of(decides, hit("a", "block"), hit("known_device", "block", 0, "critical")) == "allow"
    assert decision_of(decides, hit("a", "review"), hit("b", "review", 0, "critical")) == "block"
    assert decision_of(decides, hit("a", "review"), hit("b", "review")) == "step_up"
    assert decision_of(decides, hit("a", "review")) == "review", "none holds: the gravest action"


def test_bands_decide_by_score() -> None:
    bands = [{"from": 80, "decision": "block"}, {"from": 40, "decision": "review"}]
    assert [decision_of(policy(bands=bands), hit("a", "block", score)) for score in (39, 40, 79, 80)] == [
        *("allow", "review", "review", "block")
    ]
    two = (hit("a", "allow", 50), hit("b", "allow", 60))
    assert decide(policy(bands=bands), RECORD, two).score == 110
    assert decision_of(policy(bands=bands), *two) == "block"
    assert decide(policy(bands=bands, score="max"), RECORD, two).score == 60
    assert decision_of(policy(bands=bands, score="max"), *two) == "review"
    assert decision_of(policy(bands=bands)) == "allow"


def test_branches_speak_before_bands() -> None:
    both = policy(decide=[{"when": "tags.web > 0", "decision": "step_up"}], bands=[{"from": 0, "decision": "block"}])
    assert decision_of(both, hit("a", "allow", 0, "low", "web")) == "step_up"
    assert decision_of(both, hit("a", "allow", 0, "low", "pos")) == "block"


def test_it_looks_as_it_is_promised() -> None:
    decided = decide(policy(), RECORD, [hit("card_burst", "step_up", 40), hit("large", "review", 15)])
    name = uuid.uuid5(uuid.UUID("b0a3a2d4-6f0e-5c55-8f0a-3d6f5b1f7c21"), "2\x1fpayments\x1ft0000007")
    reason = {"rule_version": 1, "action": "step_up", "score": 40, "alert_id": "alert of card_burst"}
    other = {"rule_version": 1, "action": "review", "score": 15, "alert_id": "alert of large"}
    assert list(decided.to_json("abc", 1_767_225_608_000).items()) == [
        ("schema_version", 1),
        ("decision_id", str(name)),
        ("kind", "decision"),
        ("revision", 0),
        ("stream", "payments"),
        ("record_id", "t0000007"),
        ("decision", "step_up"),
        ("score", 55),
        (
            "reasons",
            [
                {"rule_id": "card_burst", **reason, "message": "card_burst said so"},
                {"rule_id": "large", **other, "message": "large said so"},
            ],
        ),
        ("policy_version", 2),
        ("rules_digest", "abc"),
        ("event_time", "2026-01-01T00:00:07.120Z"),
        ("ingest_time", "2026-01-01T00:00:07.180Z"),
        ("decided_at", "2026-01-01T00:00:08.000Z"),
        ("answered", "exact"),
        ("degraded", []),
    ]


HITS = st.lists(
    st.builds(
        hit,
        st.sampled_from(["r0", "r1", "r2", "r3"]),
        st.sampled_from(ACTIONS),
        st.sampled_from([0, 10, 40, 50, 100]),
        st.sampled_from(SEVERITIES),
        st.sampled_from(["cash", "web", "x"]),
    ),
    max_size=4,
    unique_by=lambda each: each.rule_id,
)
BRANCHES = st.lists(st.tuples(st.sampled_from(list(WHENS)), st.sampled_from(ACTIONS)), max_size=4)
BANDS = st.dictionaries(st.integers(0, 200), st.sampled_from(ACTIONS), max_size=3)


@settings(max_examples=150, deadline=None)
@given(HITS, BRANCHES, BANDS, st.sampled_from(["sum", "max"]), st.randoms(use_true_random=False))
def test_it_says_what_the_twin_says_in_any_order(
    hits: list[DecidingHit], branches: list[tuple[str, str]], bands: dict[int, str], score: str, draw: random.Random
) -> None:
    written = {
        "decide": [{"when": when, "decision": decision} for when, decision in branches],
        "bands": [{"from": at_least, "decision": decision} for at_least, decision in bands.items()],
        "score": score,
    }
    decided: Decision = decide(policy(**written), RECORD, hits)
    weights = [
        {"rule_id": h.rule_id, "action": h.action, "score": h.score, "severity": h.severity, "tags": h.tags}
        for h in hits
    ]
    assert (decided.decision, decided.score) == naive_decision(written, weights)
    shuffled = list(hits)
    draw.shuffle(shuffled)
    assert decide(policy(**written), RECORD, shuffled) == decided


@pytest.mark.parametrize("more", [{"kind": "shadow"}, {"emit_to_sink": False}])
def test_hits_of_rules_that_are_not_delivered_do_not_count(more: dict[str, Any]) -> None:
    alert = {
        "kind": "alert",
        "rule_id": "r",
        "rule_version": 3,
        "action": "block",
        "score": 4,
        "severity": "low",
        "alert_id": "id",
        "message": "said",
        "tags": ["web"],
        "evidence": {},
    }
    assert hit_of(alert) == DecidingHit("r", 3, "block", 4, "low", ("web",), "id", "said")
    assert hit_of({**alert, **more}) is None


RULE = """\
- {rule_id: a, version: 1, rule_type: threshold, source_topic: s, conditions: [{field: x, operator: exists}]}
- {rule_id: b, version: 1, rule_type: threshold, source_topic: s, conditions: [{field: x, operator: exists}],
   effective_from: 1000}
- {rule_id: t, version: 1, rule_type: threshold, source_topic: s, conditions: [{field: x, operator: exists}],
   status: shadow}
- {rule_id: e, version: 1, rule_type: threshold, source_topic: other, conditions: [{field: x, operator: exists}]}
"""


def test_the_digest_is_of_the_rules_in_force() -> None:
    loaded = [each.rule for each in load_rules_text(RULE, "rules.yaml")]
    body = {rule.rule_id: rule.body_digest() for rule in loaded}
    in_force = RulesInForce(RuleSet.from_rules(loaded), "s")
    one = hashlib.sha256(f"a\x1f1\x1f{body['a']}".encode()).hexdigest()[:32]
    two = hashlib.sha256(f"a\x1f1\x1f{body['a']}\x1eb\x1f1\x1f{body['b']}".encode()).hexdigest()[:32]
    assert [in_force.digest(ms) for ms in (-5, 999, 1000, 10**15)] == [one, one, two, two]
    later = RuleSet.from_rules([loaded[0], loaded[1].model_copy(update={"effective_from": None})])
    assert RulesInForce(later, "s").digest(5) == two, "when they were published says nothing"
