"""What stands beside the evidence of a case: its decision, its rule, what became of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson
import yaml

from crossline.analysis.english import describe_rule
from crossline.basics.errors import CrosslineError
from crossline.basics.times import parse_instant_ms
from crossline.plan.compose import sources_of
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet
from crossline.serve.cases.intake.linking import LINKER
from crossline.serve.console.pages.case.context import AnswerStep, DecisionPanel, Happened, RuleText
from crossline.serve.console.request import PageRequest
from crossline.serve.http.problems import ProblemError
from crossline.serve.http.reads.decisions import found_decisions
from crossline.serve.http.reads.rules import versions_of
from crossline.settings.config import rule_defaults

AROUND, DECISIONS_MAX, TEXT_LINES = 2, 5, 14


def decided_of(asked: PageRequest, alert: Mapping[str, Any]) -> DecisionPanel | None:
    """The last decision on the record of an alert; None if there is none."""
    try:
        found = found_decisions(asked.parts.deps, alert["record_id"], alert["stream"], None, DECISIONS_MAX)
    except (CrosslineError, ProblemError):
        return None
    if not found:
        return None
    first = max(found, key=lambda each: str(each.get("decided_at", "")))
    revisions: Sequence[Mapping[str, Any]] = first.get("revisions", ())
    now = revisions[-1] if revisions else first
    kept = asked.parts.deps.decisions
    receipt = None if kept is None else kept.receipt(first["decision_id"])
    return DecisionPanel(
        decision=str(now["decision"]),
        score=str(now.get("score", "")),
        path=f"/decisions/{quote(str(first['decision_id']), safe='')}",
        steps=tuple(_step(asked, each, number, receipt is not None) for number, each in enumerate((first, *revisions))),
        reasons=tuple(_reason(each) for each in now.get("reasons", ()) if isinstance(each, Mapping)),
        policy=str(now.get("policy_version", "")),
        digest="" if receipt is None else str(receipt.get("digest", "")),
        receipt="" if receipt is None else orjson.dumps(receipt, option=orjson.OPT_INDENT_2).decode(),
    )


def _step(asked: PageRequest, each: Mapping[str, Any], number: int, by_api: bool) -> AnswerStep:
    at = asked.times.moment(parse_instant_ms(each["decided_at"]), exact=True)
    because = each.get("because")
    how = "revised by the stream" + (f", after {because}" if because else "")
    first = f"answered by the API, {each.get('answered', 'exact')}" if by_api else "decided by the stream"
    return AnswerStep(at, str(each["decision"]), how if number else first)


def _reason(each: Mapping[str, Any]) -> str:
    return f"{each.get('rule_id', '')} {each.get('rule_version', '')}: {each.get('score', '')}"


def rule_of(asked: PageRequest, alert: Mapping[str, Any]) -> RuleText | None:
    """The version that fired, its difference to the one before, what it means; None: nothing is known of it."""
    config = asked.parts.deps.config
    try:
        rows = versions_of(config, alert["rule_id"])
    except (ProblemError, CrosslineError):
        return None
    mine = next((each for each in rows if int(each["version"]) == alert["rule_version"]), None)
    if mine is None:
        return None
    older = [each for each in rows if int(each["version"]) < alert["rule_version"]]
    text, before = _text(mine["body"]), _text(older[-1]["body"]) if older else []
    diff = list(_difference(before, text)) if older else [(" ", line) for line in text[:TEXT_LINES]]
    since = mine.get("from")
    return RuleText(
        name=alert["rule_id"],
        version=str(mine["version"]),
        since=asked.times.moment(parse_instant_ms(since)) if since else None,
        status=str(mine.get("status", "")),
        diff=tuple(diff),
        differ=sum(sign != " " for sign, _ in diff),
        before=str(older[-1]["version"]) if older else "",
        english=_english(config, mine["body"]),
    )


def _text(body: Mapping[str, Any]) -> list[str]:
    return yaml.safe_dump(dict(body), sort_keys=False, allow_unicode=True, width=60).splitlines()


def _difference(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in difflib.unified_diff(before, after, n=AROUND, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            yield line[:1], line[1:]


def _english(config: Any, body: Mapping[str, Any]) -> str:
    rule = read_rule(dict(body))[0]
    if rule is None:
        return ""
    active = rule.model_copy(update={"status": "active", "effective_from": None})
    try:
        spec = sources_of(RuleSet.from_rules([active]), config.streams).of_reading(active.reading)
        return describe_rule(active, active.program(spec, rule_defaults(config)))
    except (CrosslineError, KeyError, ValueError):  # it reads hits of other rules, or a stream that is gone
        return ""


def activity_of(asked: PageRequest, case: Mapping[str, Any]) -> tuple[Happened, ...]:
    """What became of a case, the latest first."""
    return tuple(
        Happened(
            asked.times.moment(parse_instant_ms(each["at"])),
            "" if each["by"] == LINKER else each["by"],
            _happened(each),
            each["text"] if each["kind"] == "note" else "",
        )
        for each in reversed(case["activity"])
    )


def _happened(event: Mapping[str, Any]) -> str:
    after, kind, text = event["after"], event["kind"], event["text"]
    reason = f": {text}" if text else ""
    if kind == "note":
        return "noted"
    if kind == "created":
        return "opened it" if event["by"] != LINKER else "Opened by its first alert"
    if kind == "undone":
        return f"took back a note{reason}" if "note" in after else f"took it back{reason}"
    if text.startswith("undo of "):
        return f"took back: {text.removeprefix('undo of ')}"
    found = list(_changes(after))
    return (", ".join(found) if found else "changed it") + (reason if "merged into" not in text else f": {text}")


def _changes(after: Mapping[str, Any]) -> Iterator[str]:
    if "assignee" in after:
        yield f"gave it to {after['assignee']}" if after["assignee"] else "gave it back"
    state, label = after.get("state"), after.get("label")
    if state == "resolved":
        yield "resolved it" + (f" as {'fraud' if label['is_fraud'] else 'good'}" if label else "")
    elif state == "escalated":
        yield f"escalated it to {after.get('escalated_to')}"
    elif state == "snoozed":
        yield f"snoozed it until {after['until']}" if after.get("until") else "snoozed it until a new alert joins"
    elif state == "merged":
        yield "merged it"
    elif state == "open" or (state == "acknowledged" and "assignee" not in after):
        yield "opened it again"
    if "merged" in after:
        yield f"merged {', '.join(after['merged'])} into it"
    if "detached" in after:
        yield f"gave an alert of it a case of its own, {after['detached']['case_id']}"
