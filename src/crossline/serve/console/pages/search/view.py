"""``/search?q=``: one search; an exact id goes straight to its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from crossline.basics.times import parse_instant_ms
from crossline.serve.cases.queue.filters import SEARCH_MAX
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.casework.rows import short
from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.numbers import counted
from crossline.serve.console.pages.entities.rows import entity_address
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.pages.search.context import SearchHit, SearchHits, SearchPage
from crossline.serve.console.request import PageRequest, moved

SEARCH = "/v1/search"


async def view(asked: PageRequest) -> SearchPage | Response:
    """What is found, by kind."""
    q = asked.query.get("q", "").strip()
    if not q or len(q) > SEARCH_MAX or "\0" in q:
        wrong = f"Found {counted(len(q), 'character')}; expected at most {SEARCH_MAX}." if q else ""
        return SearchPage(asked.shell("Search"), q[:SEARCH_MAX], wrong, ())
    found = await called(asked, "GET", SEARCH, query={"q": q})
    exact = [_address(each) for each in found["exact"]]
    if len(exact) == 1:
        return moved(exact[0])
    groups = (each for each in _groups(asked, found) if each.hits)
    return SearchPage(asked.shell(f"{q[:60]} · search"), q, "", tuple(groups))


def _address(exact: Mapping[str, Any]) -> str:
    """The page of what has exactly the id."""
    match exact["kind"]:
        case "case":
            return f"/cases/{segment(exact['case_number'])}"
        case "alert":
            return _alert_address(exact)
        case "entity":
            return entity_address(exact["field"], exact["value"])
        case "rule":
            return f"/rules/{segment(exact['rule_id'])}"
        case _:
            return f"/decisions/{segment(exact['decision_id'])}"


def _alert_address(alert: Mapping[str, Any]) -> str:
    return f"/cases/{segment(alert['case_number'])}?alert={segment(alert['alert_id'])}"


def _groups(asked: PageRequest, found: Mapping[str, Any]) -> Iterator[SearchHits]:
    more = set(found["more"])
    queue = f"/queue?{urlencode({'view': 'all', 'q': found['q']})}"
    yield SearchHits("Cases", tuple(_case(asked, each) for each in found["cases"]), "cases" in more, queue)
    yield SearchHits("Entities", tuple(map(_entity, found["entities"])), "entities" in more)
    yield SearchHits("Alerts", tuple(_alert(asked, each) for each in found["alerts"]), "alerts" in more, queue)
    decisions = f"/decisions?{urlencode({'record': found['q']})}"
    yield SearchHits(
        "Decisions", tuple(_decision(asked, each) for each in found["decisions"]), "decisions" in more, decisions
    )
    yield SearchHits("Rules", tuple(map(_rule, found["rules"])), "rules" in more, "/rules")


def _case(asked: PageRequest, case: Mapping[str, Any]) -> SearchHit:
    whose = f", {case['assignee']}" if case["assignee"] else ""
    meta = f"{case['status']}{whose}, {counted(case['alert_count'], 'alert')}"
    address = f"/cases/{segment(case['number'])}"
    at = _moment(asked, case["last_at"])
    return SearchHit(address, case["number"], case["sentence"], meta, _grade(case["severity"]), at=at)


def _alert(asked: PageRequest, alert: Mapping[str, Any]) -> SearchHit:
    number = alert["case_number"]
    address = _alert_address(alert) if number is not None else f"/rules/{segment(alert['rule_id'])}"
    meta = f"{alert['rule_id']}, record {short(alert['record_id'])}" + (f", {number}" if number else ", suppressed")
    at = _moment(asked, alert["event_time"])
    return SearchHit(address, alert["alert_id"][:8], alert["message"], meta, _grade(alert["severity"]), at=at)


def _entity(entity: Mapping[str, Any]) -> SearchHit:
    address = entity_address(entity["field"], entity["value"])
    return SearchHit(address, short(entity["value"]), "", f"{entity['field']}, {counted(entity['cases'], 'case')}")


def _decision(asked: PageRequest, body: Mapping[str, Any]) -> SearchHit:
    address = f"/decisions/{segment(body['decision_id'])}"
    meta = f"on record {short(body['record_id'])} of {body['stream']}"
    at = None if body["event_time"] is None else _moment(asked, body["event_time"])
    return SearchHit(address, body["decision_id"][:8], "", meta, decision=body["decision"], at=at)


def _rule(rule: Mapping[str, Any]) -> SearchHit:
    meta = f"version {rule['version']}, {rule['status']}"
    return SearchHit(f"/rules/{segment(rule['rule_id'])}", rule["rule_id"], rule["text"], meta)


def _moment(asked: PageRequest, text: str) -> Moment:
    return asked.times.moment(parse_instant_ms(text))


def _grade(severity: str | None) -> str:
    return severity or "info"


PAGE = Page("search", (PageRoute("GET", "/search", view),))
