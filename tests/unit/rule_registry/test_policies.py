"""Which policy was in force since when, as the rule log has it."""

from __future__ import annotations

from crossline.basics.times import FOREVER_MS
from crossline.rule_registry.events import RuleEvent, event_from_line
from crossline.rule_registry.outcomes.policies import policies_in, policy_events
from crossline.rules.policy.policy import load_policy

FIRST = load_policy("{schema_version: 1, version: 1}", "policy.yaml")
SECOND = load_policy("{schema_version: 1, version: 2, bands: [{from: 40, decision: block}]}", "policy.yaml")


def test_a_start_with_another_policy_is_an_event_and_one_with_the_same_is_none() -> None:
    """Back to the first one is a change again."""
    log: list[RuleEvent] = []
    for now_ms, policy in ((10, FIRST), (20, FIRST), (30, SECOND), (40, None), (50, SECOND), (60, FIRST)):
        log += [event_from_line(each.to_line()) for each in policy_events(log, policy, now_ms)]
        log.append(RuleEvent("absent", now_ms))
    spans = list(policies_in(log))
    assert [(each.version, each.from_ms, each.until_ms) for each in spans] == [
        (1, 10, 30),
        (2, 30, 60),
        (1, 60, FOREVER_MS),
    ]
    assert list(policies_in([RuleEvent("started", 1)])) == []
    assert [each.policy() for each in spans] == [FIRST, SECOND, FIRST]


def test_a_policy_that_is_not_what_its_digest_says_is_none() -> None:
    (event,) = policy_events([], FIRST, 10)
    wrong = [{**(event.body or {}), "version": 7}, {"nothing": 1}]
    for body in wrong:
        (span,) = policies_in([RuleEvent("policy_changed", 1, version=1, digest=event.digest, body=body)])
        assert span.policy() is None
