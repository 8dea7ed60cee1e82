"""What is published, approved, or waits for approval, as events of the rule log."""

from __future__ import annotations

from dataclasses import replace

from crossline.rule_registry.events import RuleEvent, published_by
from crossline.rule_registry.history import History
from crossline.rule_registry.rule_files import FileRule
from crossline.rule_registry.sources.origin import Origin
from crossline.rule_registry.sources.review import Approval, review_digest


def publication(each: FileRule, history: History, now_ms: int, effective_from_ms: int | None) -> RuleEvent:
    """A rule is loaded: a new version, or another status of one that is known."""
    rule = each.rule
    return RuleEvent(
        "status_changed" if history.knows(rule) else "published",
        now_ms,
        rule.rule_id,
        rule.version,
        rule.status,
        effective_from_ms,
        each.source,
        each.line,
        rule.body_digest(),
        body=rule.to_json(),
    )


def approved(event: RuleEvent, approval: Approval | None) -> RuleEvent:
    """``event``, with who approved it."""
    if approval is None:
        return event
    proof = None if approval.proof is None else dict(approval.proof)
    return replace(event, approved_by=approval.origin.who, approved_ms=approval.origin.at_ms, proof=proof)


def waiting(each: FileRule, now_ms: int, origin: Origin) -> RuleEvent:
    """A version needs the approval of another principal."""
    rule = each.rule
    text = f"version {rule.version} of {rule.rule_id}, which {origin.who} published, waits for another one's approval"
    hint = f"crossline rules approve {rule.rule_id} --version {rule.version}"
    event = RuleEvent("waiting", now_ms, rule.rule_id, rule.version, source=each.source, line=each.line)
    return published_by(replace(event, digest=review_digest(rule), text=f"{text}: {hint}"), origin)
