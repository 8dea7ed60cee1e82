"""``GET /v1/search``: one search over sentences, notes, entities, rules and ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from crossline.basics.errors import UsageError
from crossline.serve.cases.queue import search
from crossline.serve.cases.queue.filters import SEARCH_MAX
from crossline.serve.cases.rows import seq_of
from crossline.serve.cases.values import NoSuchCaseError
from crossline.serve.http.cases.requests import desk_of
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.principals import needs
from crossline.serve.http.problems import ProblemError
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.decisions import found_decisions
from crossline.serve.http.reads.rules import read_rules

LIMIT, LIMIT_MAX = 10, 50
ID_CHARS_MIN = 4  # of a decision's id that is cut short
Content = Mapping[str, Any]


def search_routes(deps: Dependencies) -> APIRouter:
    """The route of the search."""
    routes = APIRouter(tags=["server"])

    @routes.get("/v1/search", openapi_extra=needs("read:alerts"), summary="Search sentences, notes, entities and ids")
    def search(
        request: Request,
        q: Annotated[str, Query(min_length=1, max_length=SEARCH_MAX, description="Words, an id, or a case's number.")],
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="The most of each kind.")] = LIMIT,
    ) -> Any:
        """Cases and alerts in which all words stand, the latest first; where there is none, words may be cut short.

        Decisions by their id or that of their record, entities by the beginning of their value, rules by their id and
        text. `exact`: what has exactly this id, each with its `kind`. `more`: kinds of which there are more.
        """
        only_known(request)
        return json_answer(searched(deps, q, limit))

    return routes


def searched(deps: Dependencies, q: str, limit: int) -> dict[str, Any]:
    """What is found, by kind."""
    text, file = q.strip(), desk_of(deps).file
    of_cases = search.search_all(file, text, limit)
    decisions, rules = _decisions(deps, text, limit + 1), list(_rules(deps, text))
    parts: Mapping[str, Sequence[Any]] = {"decisions": decisions, "rules": rules}
    more = {*of_cases.more, *(name for name, some in parts.items() if len(some) > limit)}
    return {
        "q": text,
        "exact": list(_exact(deps, text, decisions, rules)),
        "cases": list(of_cases.cases),
        "alerts": list(of_cases.alerts),
        "decisions": decisions[:limit],
        "entities": [{"field": name, "value": value, "cases": n} for (name, value), n in of_cases.entities],
        "rules": rules[:limit],
        "more": sorted(more),
    }


def _exact(deps: Dependencies, text: str, decisions: Sequence[Content], rules: Sequence[Content]) -> Iterator[Content]:
    file = desk_of(deps).file
    number = text[:1].upper() + text[1:]
    try:
        seq_of(file, number)
    except NoSuchCaseError:
        pass
    else:
        yield {"kind": "case", "case_number": number}
    alert = search.the_alert(file, text)
    if alert is not None and alert["case_number"] is not None:
        yield {"kind": "alert", "alert_id": text, "case_number": alert["case_number"]}
    for name, value in search.having(file, text):
        yield {"kind": "entity", "field": name, "value": value}
    for each in rules:
        if each["rule_id"] == text:
            yield {"kind": "rule", "rule_id": text}
    for each in decisions:
        if text in {each["decision_id"], each["record_id"]}:
            yield {"kind": "decision", "decision_id": each["decision_id"]}


def _decisions(deps: Dependencies, text: str, limit: int) -> list[dict[str, Any]]:
    """Those with the id, or on the record with it; an id may be cut short."""
    if not text or " " in text:
        return []
    found: dict[str, Content] = {}
    kept = deps.decisions
    answered = None if kept is None else kept.decision(text)
    if answered is not None:
        found[str(answered["decision_id"])] = answered
    try:
        found |= {each["decision_id"]: each for each in found_decisions(deps, text, None, None, limit)}
        if len(text) >= ID_CHARS_MIN:
            with closing(deps.store()) as store:
                for each in store.find_decisions(text, limit):
                    if not each.get("revises"):
                        found.setdefault(each["decision_id"], each)
    except (UsageError, ProblemError):  # nothing was delivered yet, or no sink is a store
        pass
    return [_decision(each) for each in found.values()][:limit]


def _decision(body: Content) -> dict[str, Any]:
    stands = (body.get("revisions") or [body])[-1]
    fields = {name: body[name] for name in ("decision_id", "stream", "record_id")}
    return {**fields, "decision": stands["decision"], "event_time": body.get("event_time")}


def _rules(deps: Dependencies, text: str) -> Iterator[dict[str, Any]]:
    """The rules in whose id or text all words stand."""
    words = text.casefold().split()
    for row in read_rules(deps.config)[0] if words else ():
        body = row["body"]
        message = str(body.get("description") or body.get("message") or "")
        if all(each in f"{row['rule_id']} {message} {body.get('message', '')}".casefold() for each in words):
            yield {"rule_id": row["rule_id"], "version": row["version"], "status": row["status"], "text": message}
