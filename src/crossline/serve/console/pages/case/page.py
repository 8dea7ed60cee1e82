"""The page of a case, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from crossline.basics.times import parse_instant_ms
from crossline.serve.console.casework.address import QueueQuery
from crossline.serve.console.casework.evidence import evidence_view, kept_of, width_of
from crossline.serve.console.casework.forms import ASKS, ActionForm, ask_of, counted
from crossline.serve.console.casework.rows import money_text, pieces
from crossline.serve.console.layout.shell import Crumb, ShortcutKey, initials
from crossline.serve.console.pages.case.context import ActionButton, AlertTab, CasePage, CaseStatus
from crossline.serve.console.pages.case.holds import spans
from crossline.serve.console.pages.case.side_panel import activity_of, decided_of, rule_of
from crossline.serve.console.pages.entities.rows import links_address
from crossline.serve.console.pages.queue.preview import WHY_NOT, became, gravest, near, shared
from crossline.serve.console.request import PageRequest
from crossline.serve.http.cases.requests import desk_of

KEYS = (
    *(
        ShortcutKey((key,), caption)
        for key, caption in (("a", "assign to me"), ("h", "hold"), ("e", "escalate"), ("s", "snooze"))
    ),
    *(
        ShortcutKey((key,), caption)
        for key, caption in (("r", "resolve"), ("n", "note"), ("m", "merge"), ("c", "copy the receipt"))
    ),
    ShortcutKey(("[", "]"), "previous, next alert"),
)
NEAR_MAX, MERGEABLE_MAX = 4, 12
WHY_NO_RECORDS = "Your roles let you read alerts and not the records that they rest on: that takes read:records."
WHY_NO_HOLD = "Your roles let you hold nothing: that takes hold."


def page(asked: PageRequest, case: Mapping[str, Any], *, fact: str = "", problem: str = "") -> CasePage:
    """The page. ``fact``: what a hold would stop; ``problem``: why an act was not done."""
    wanted = QueueQuery.of(asked.query) if not asked.form else QueueQuery.of_text(asked.form.get("back", ""))
    number, desk = case["number"], desk_of(asked.parts.deps)
    alert = _chosen(asked, case)
    alert_id = "" if alert is None else alert["alert_id"]
    tabs = _tabs(case, alert_id, wanted, asked)
    here = next((at for at, each in enumerate(tabs) if each.current), 0)
    judged = kept_of(asked, alert_id) if alert is not None and asked.allows("read:records") else None
    width = width_of(asked)
    state = state_of(asked, case)
    crumbs = (Crumb("Queue", "/queue?view=open"), Crumb(wanted.label, wanted.address()), Crumb(number))
    records = asked.allows("read:records") and alert is not None
    return CasePage(
        shell=asked.shell(number, crumbs, KEYS, scripts=("js/case.js",)),
        number=number,
        version=int(case["version"]),
        status=_status(case),
        severity=case["severity"] or "info",
        sentence=pieces(alert["message"] if alert is not None else case["sentence"], _ids(case)),
        facts=tuple(_facts(asked, case)),
        assignee="you" if case["assignee"] == asked.who.name else case["assignee"] or "",
        mark=initials(case["assignee"]) if case["assignee"] else "+",
        tabs=tabs,
        chosen=alert_id,
        before=tabs[here - 1].path if here > 0 else "",
        after=tabs[here + 1].path if here + 1 < len(tabs) else "",
        acts=_acts(asked, case, wanted, alert, state.over),
        ask=_ask(asked, case, wanted, alert_id, fact, problem),
        state=state,
        state_path=_state_path(case),
        evidence=None if judged is None else evidence_view(asked, case, judged, width),
        evidence_path=f"/cases/{number}/evidence/{alert_id}" if records else "",
        evidence_why="" if asked.allows("read:records") else WHY_NO_RECORDS,
        changes_path=f"/cases/{number}/changes/{alert_id}" if records else "",
        decided=None if alert is None else decided_of(asked, alert),
        rule=None if alert is None else rule_of(asked, alert),
        linked=tuple(near(asked, wanted, each, shared(each)) for each in desk.linked(number, NEAR_MAX)),
        similar=tuple(near(asked, wanted, each, became(each)) for each in desk.similar(number, NEAR_MAX)),
        entities=tuple(
            (
                each["field"].removesuffix("_id").replace("_", " "),
                each["value"],
                links_address(each["field"], each["value"]),
            )
            for each in case["entities"]
        ),
        activity=activity_of(asked, case),
        address=wanted.address(f"/cases/{number}"),
        back=wanted.text(),
        nonce=asked.nonce,
        token=asked.token,
        may_act=asked.allows("write:cases") and not state.over,
        why_not=state.over or ("" if asked.allows("write:cases") else WHY_NOT),
        printed=f"{asked.who.name}, {asked.times.moment(asked.parts.now_ms()).full}",
    )


def state_of(asked: PageRequest, case: Mapping[str, Any]) -> CaseStatus:
    """Who else looks, why acts are over, and what is another than the page has it."""
    names = asked.parts.present.others(case["case_id"], asked.who.name, asked.parts.now_ms())
    seen, changed = asked.query, ""
    if seen.get("version") and seen["version"] != str(case["version"]):
        parts = (
            [f"now {counted(case['alert_count'], 'alert')}, was {seen['alerts']}"]
            if seen.get("alerts") not in {None, str(case["alert_count"])}
            else []
        )
        money = money_text(case["money"])
        parts += [f"{money} at risk, was {seen['money']}"] if seen.get("money") not in {None, money} else []
        at = asked.times.moment(parse_instant_ms(case["changed_at"])).text
        changed = f"changed {at} by {case['changed_by']}: {'; '.join(parts) or 'now ' + _status(case)}"
    return CaseStatus(
        tuple((each, initials(each)) for each in names), _over(asked, case), changed, f"/cases/{case['number']}"
    )


def _over(asked: PageRequest, case: Mapping[str, Any]) -> str:
    if case["status"] == "merged":
        return f"{case['number']} was merged into {case['merged_into']}."
    if case["status"] == "resolved":
        at = asked.times.moment(parse_instant_ms(case["resolved_at"])).text
        who = "You" if case["changed_by"] == asked.who.name else case["changed_by"]
        return f"{who} resolved this case at {at}" + (f" as {case['label']}." if case["label"] else ".")
    return ""


def _chosen(asked: PageRequest, case: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The alert of the address, by its id or how that begins; else the gravest."""
    wanted = asked.query.get("alert", "") or asked.form.get("alert_id", "")
    known = [each for each in case["alerts"] if "message" in each]
    mine = [each for each in known if wanted and each["alert_id"].startswith(wanted)]
    return mine[0] if mine else gravest(case)


def _tabs(case: Mapping[str, Any], alert_id: str, wanted: QueueQuery, asked: PageRequest) -> tuple[AlertTab, ...]:
    return tuple(
        AlertTab(
            each["alert_id"],
            each["rule_id"],
            each["severity"] or "info",
            asked.times.moment(parse_instant_ms(each["event_time"])),
            wanted.address(f"/cases/{case['number']}", alert=each["alert_id"]),
            each["alert_id"] == alert_id,
            each["retracted"],
        )
        for each in case["alerts"]
        if "message" in each
    )


def _ids(case: Mapping[str, Any]) -> list[str]:
    return [each["value"] for each in case["entities"]]


def _status(case: Mapping[str, Any]) -> str:
    if case["status"] == "resolved":
        return f"resolved as {case['label']}" if case["label"] else "resolved"
    return f"escalated to {case['escalated_to']}" if case["status"] == "escalated" else str(case["status"])


def _facts(asked: PageRequest, case: Mapping[str, Any]) -> list[str]:
    money = money_text(case["money"])
    found = [f"{case['number']}, {_status(case)}", *([f"{money} at risk"] if money else [])]
    rules = len({each["rule_id"] for each in case["rules"]})
    found.append(f"{counted(case['alert_count'], 'alert')} by {counted(rules, 'rule')}")
    if case["retracted_count"]:
        found.append(f"{case['retracted_count']} retracted")
    first, last = (asked.times.moment(parse_instant_ms(case[name])).text for name in ("first_at", "last_at"))
    found.append(f"at {last}" if first == last else f"first {first}, last {last}")
    if case["merged"]:
        found.append(f"with {', '.join(case['merged'])}")
    return found


def _acts(
    asked: PageRequest, case: Mapping[str, Any], wanted: QueueQuery, alert: Mapping[str, Any] | None, over: str
) -> tuple[ActionButton, ...]:
    """What the header offers: the act that stops money first, the one that ends the case last."""
    why = over or ("" if asked.allows("write:cases") else WHY_NOT)

    def path(name: str) -> str:
        more = {"alert": alert["alert_id"]} if alert is not None and name == "hold" else {}
        return wanted.address(f"/cases/{case['number']}", ask=name, **more)

    found = []
    if alert is not None and alert["key"]:
        name = next(iter(alert["key"])).removesuffix("_id").removesuffix("_hash").replace("_", " ")
        no_hold = over if case["status"] == "merged" else "" if asked.allows("hold") else WHY_NO_HOLD
        found.append(ActionButton(f"Hold {name}", "h", path("hold"), "danger", no_hold))
    if case["status"] == "resolved" and asked.allows("write:cases"):
        return (*found, ActionButton("Open again", "r", path("reopen"), ""))
    found += [
        ActionButton("Escalate", "e", path("escalate"), "later", why),
        ActionButton("Snooze", "s", path("snooze"), "later", why),
    ]
    return (*found, ActionButton("Resolve", "r", path("resolve"), "pri", why))


def _ask(
    asked: PageRequest, case: Mapping[str, Any], wanted: QueueQuery, alert_id: str, fact: str, problem: str
) -> ActionForm | None:
    """The form of an act, where one is asked for, or was refused."""
    refused = asked.request.url.path.endswith("/hold")
    name = "hold" if refused else asked.form.get("act") or asked.query.get("ask", "")
    if name not in ASKS or not asked.allows("hold" if name == "hold" else "write:cases"):
        return None
    address = wanted.address(f"/cases/{case['number']}")
    action = f"/cases/{case['number']}/{'hold' if name == 'hold' else 'act'}"
    made = ask_of(asked, name, [case], (action, address, wanted.text()), problem=problem)
    if name == "hold":
        return _hold(asked, case, made, alert_id, fact)
    if name == "merge":
        return replace(made, choices=_mergeable(asked, case))
    return replace(
        made, alert=asked.query.get("alert", "") or asked.form.get("alert_id", "") if name == "detach" else ""
    )


def _mergeable(asked: PageRequest, case: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Linked cases that are not over, each with what both have."""
    found = desk_of(asked.parts.deps).linked(case["number"], MERGEABLE_MAX)
    return tuple(
        (each["number"], f"{each['number']}, {shared(each)}: {each['sentence']}")
        for each in found
        if each["status"] not in {"resolved", "merged"}
    )


def _hold(asked: PageRequest, case: Mapping[str, Any], made: ActionForm, alert_id: str, fact: str) -> ActionForm:
    alert = next((each for each in case["alerts"] if each["alert_id"] == alert_id), None)
    key: Sequence[str] = list(alert["key"].values()) if alert is not None else []
    stream = alert["stream"] if alert is not None else "records"
    parts = (
        (f"Every record of {stream} with {', '.join(key)} is ", False),
        ("blocked, or what you choose,", True),
        (" from now on until its time.", False),
    )
    return replace(made, parts=parts, button="Hold", alert=alert_id, version="", choices=spans(asked), fact=fact)


def _state_path(case: Mapping[str, Any]) -> str:
    seen = {"version": case["version"], "alerts": case["alert_count"], "money": money_text(case["money"])}
    return f"/cases/{case['number']}/state?{urlencode(seen)}"
