"""Versions that were published, or set to decide more, and wait for a second person: listed, and approved of."""

from __future__ import annotations

import asyncio
from typing import Any

from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.outcomes.overview import pending
from crossline.rule_registry.sources.principals import same_principal
from crossline.serve.approvals.texts import text_of
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.flash import saying
from crossline.serve.console.pages.approvals.context import PendingVersionRow
from crossline.serve.console.pages.rules.editor import number_of
from crossline.serve.console.request import PageRequest, moved
from crossline.serve.http.reads.rulebook import rulebook
from crossline.serve.http.reads.rules import waiting_tag

SCOPE = "rules:approve"


def waiting_events(asked: PageRequest) -> list[RuleEvent]:
    """What the rule log has waiting; nothing where the rules have no review."""
    config = asked.parts.deps.config
    return [] if config.rules.review == "none" else pending(rulebook(config).events)


def waiting_versions(asked: PageRequest) -> tuple[PendingVersionRow, ...]:
    """The same, as who looks sees it; ``act``: the one that he is about to approve of."""
    return tuple(_row(asked, each) for each in waiting_events(asked))


async def approve_version(asked: PageRequest) -> Any:
    """Approve of one, by the API."""
    rule_id, version = asked.form.get("rule_id", ""), number_of(asked.form.get("version", ""))
    body: dict[str, Any] = {"rule_id": rule_id, "version": version}
    proof_id = await asyncio.to_thread(_proof_id, asked, rule_id, version)
    if proof_id:
        body["proof_id"] = proof_id
    await called(asked, "POST", "/v1/rules:approve", body=body, match=asked.form.get("etag", ""))
    text = f"Version {version} of {rule_id} is approved of; a pipeline loads it with its next batch."
    return saying(moved(f"/rules/{segment(rule_id)}"), asked, text)


def _row(asked: PageRequest, event: RuleEvent) -> PendingVersionRow:
    rule_id, version = str(event.rule_id), int(event.version or 0)
    wanted = (asked.query.get("rule_id"), asked.query.get("version")) == (rule_id, str(version))
    proof_id, why_not = _proof_id(asked, rule_id, version), ""
    if not asked.allows(SCOPE):
        why_not = f"To approve needs the scope {SCOPE}, which {asked.who.name} has not."
    elif same_principal(event.who, asked.who.name):
        why_not = "You published it: a second person approves."
    elif asked.parts.deps.config.rules.review == "proven" and not proof_id:
        why_not = "There is no proof of its text: a backtest of it has to be run first."
    return PendingVersionRow(
        rule_id=rule_id,
        version=version,
        address=f"/rules/{segment(rule_id)}/{version}" if _row_of(asked, rule_id, version) else "",
        who=event.who or "unknown",
        at=asked.times.moment(event.at_ms),
        etag=waiting_tag(event.rule_id, event.version, event.digest),
        asks=f"/approvals?rule_id={segment(rule_id)}&version={version}#act",
        proven=bool(proof_id),
        act=wanted and not why_not,
        why_not=why_not,
    )


def _row_of(asked: PageRequest, rule_id: str, version: int) -> dict[str, Any] | None:
    """The version as a row, where a file or the log has it: a topic's that was never in force they have not."""
    rows = rulebook(asked.parts.deps.config).versions
    return next((each for each in rows if (each["rule_id"], each["version"]) == (rule_id, version)), None)


def _proof_id(asked: PageRequest, rule_id: str, version: int) -> str:
    """Of the proof of its text, or of that by which it was published; empty: there is none."""
    kept, row = asked.parts.approvals, _row_of(asked, rule_id, version)
    found = None if row is None else kept.proof_of_text(text_of(asked.parts.deps.config, row)[0])
    if found is not None:
        return found.proof_id
    request = kept.published(rule_id, version)
    return "" if request is None else request.proof_id
