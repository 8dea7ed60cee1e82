"""A case beside the list: its content, its decision, linked and similar cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossline.basics.times import parse_instant_ms
from crossline.serve.console.casework.address import QueueQuery
from crossline.serve.console.casework.rows import money_text, pieces
from crossline.serve.console.pages.queue.context import Near, Preview
from crossline.serve.console.request import PageRequest
from crossline.serve.http.cases.requests import case_of, desk_of

NEAR_MAX = 3
WHY_NOT = "Your roles let you read cases and not change them: that takes write:cases."


def preview_of(asked: PageRequest, wanted: QueueQuery, case_id: str) -> Preview:
    """The preview of a case. Raises ProblemError (404)."""
    case, desk = case_of(asked.parts.deps, case_id), desk_of(asked.parts.deps)
    number, decision = case["number"], case["decision"] or {}
    alert = gravest(case)
    moment = asked.times.moment(parse_instant_ms(case["last_at"]))
    may_act, was = asked.allows("write:cases"), str(decision.get("gravest", ""))
    standing = str(decision.get("standing", ""))
    return Preview(
        number=number,
        address=wanted.address(f"/cases/{number}"),
        severity=case["severity"] or "info",
        sentence=pieces(case["sentence"], (each["value"] for each in case["entities"])),
        at=moment,
        facts=tuple(_facts(case)),
        chart=f"/cases/{number}/small/{alert['alert_id']}"
        if alert is not None and asked.allows("read:records")
        else "",
        decision=standing,
        was=was if was != standing else "",
        decided="revised" if decision.get("revised") else "",
        linked=tuple(near(asked, wanted, each, shared(each)) for each in desk.linked(number, NEAR_MAX)),
        similar=tuple(near(asked, wanted, each, became(each)) for each in desk.similar(number, NEAR_MAX)),
        back=wanted.text(),
        may_act=may_act,
        may_hold=asked.allows("hold"),
        why_not="" if may_act else WHY_NOT,
    )


def gravest(case: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The alert whose sentence the case has; None if nothing is known of its alerts."""
    known = [each for each in case["alerts"] if "message" in each]
    mine = [each for each in known if each["message"] == case["sentence"]]
    found: list[Mapping[str, Any]] = mine or known
    return found[-1] if found else None


def near(asked: PageRequest, wanted: QueueQuery, case: Mapping[str, Any], text: str) -> Near:
    """A case beside another one."""
    return Near(
        number=case["number"],
        address=wanted.address(f"/cases/{case['number']}"),
        sentence=pieces(case["sentence"], (each["value"] for each in case["entities"])),
        severity=case["severity"] or "info",
        caption=text,
        at=asked.times.moment(parse_instant_ms(case["resolved_at"] or case["last_at"])),
    )


def shared(case: Mapping[str, Any]) -> str:
    """What two linked cases have in common."""
    return ", ".join(f"same {each['field'].removesuffix('_id').replace('_', ' ')}" for each in case["shared"])


def became(case: Mapping[str, Any]) -> str:
    """What became of a case that is like another one."""
    money = money_text(case["money"])
    return f"resolved as {case['label'] or 'no label'}" + (f", {money}" if money else "")


def _facts(case: Mapping[str, Any]) -> list[str]:
    money, rules = money_text(case["money"]), len({each["rule_id"] for each in case["rules"]})
    found = [f"{money} at risk"] if money else []
    found.append(f"{rules} {'rule' if rules == 1 else 'rules'}")
    found.append(case["assignee"] or "unassigned")
    return found
