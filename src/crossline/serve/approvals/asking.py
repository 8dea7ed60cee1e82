"""Asking for approval of a text: one rule that is right, newer than what is there, and proven."""

from __future__ import annotations

from crossline.core.settings.config import PipelineConfig
from crossline.serve.approvals.file import ApprovalFile
from crossline.serve.approvals.texts import text_of, the_rule
from crossline.serve.approvals.values import Request
from crossline.serve.http.problems import ProblemError, invalid
from crossline.serve.http.reads.rules import current_of, versions_of


def ask_for(config: PipelineConfig, kept: ApprovalFile, text: str, who: str, now_ms: int) -> Request:
    """The request that is made. ``who``: whose text it is; ``now_ms``: epoch milliseconds.

    Raises ProblemError where the text is no rule or not above what is published, UsageError without a proof of it.
    """
    rule = the_rule(config, text)
    if rule is None:
        raise invalid("/text", "no rule that is right", "one rule without a fault")
    name = f"{rule.rule_id}.yaml"
    try:
        rows = versions_of(config, rule.rule_id)
    except ProblemError:
        rows = []
    if rows:
        last = max(int(each["version"]) for each in rows)
        if rule.version <= last:
            raise invalid("/version", f"version {rule.version}", f"at least {last + 1}, since version {last} is there")
        name = text_of(config, current_of(rows))[1]
    return kept.ask(rule.rule_id, rule.version, name, text, who, now_ms)
