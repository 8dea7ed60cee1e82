"""``/v1/entities``: all that is known of one value of a key: figures, alerts, decisions, holds, lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool

from crossline.basics.errors import CrosslineError
from crossline.io.stores.protocol import AlertFilter
from crossline.io.tokens.lookup import value_as_token
from crossline.rule_registry.sources.list_edit import named
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.paging import Limit
from crossline.serve.http.principals import needs
from crossline.serve.http.problems import ProblemError
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.alerts import listed, matching
from crossline.serve.http.reads.decisions import found_decisions
from crossline.serve.http.reads.held_keys import all_held
from crossline.serve.http.reads.history import LakePlace, LakeReads
from crossline.serve.http.reads.lists import entries_of
from crossline.serve.http.reads.rulebook import rulebook

SHOWN = 20
_OF_FIGURES = ("rule_id", "rule_version", "value", "operator", "threshold", "window_start", "window_end")


def entity_routes(deps: Dependencies, lake: LakeReads) -> APIRouter:
    """The route of entities."""
    routes = APIRouter(tags=["entities"])

    @routes.get(
        "/v1/entities/{field}/{value:path}",
        openapi_extra=needs("read:alerts"),
        summary="What is known of one value of a field",
    )
    async def entity(
        request: Request,
        field: Annotated[str, Path(max_length=200, description="A field of keys, such as account_id.")],
        value: Annotated[str, Path(max_length=1_000, description="Its value, as text.")],
        limit: Limit = SHOWN,
    ) -> Any:
        """The latest alerts and decisions, at most ``limit`` each, and what holds now; older alerts from the lake.

        ``figures``: of each rule whose key is the field alone, as a replica has them now, looking back from the
        stream's own clock; ``missing``: the rules whose figure cannot be computed, each with the reason. Where no
        replica answers, ``figures_as_of`` is ``alerts``, and each is the value of a rule's last alert. The value of a
        sensitive field may be given as it is; the answer has its token.
        """
        only_known(request)
        value = await run_in_threadpool(value_as_token, deps.config.streams, field, value, make=False)
        known = await run_in_threadpool(known_of_entity, deps, field, value, limit)
        if not known["alerts_more"] and (goes_on := await lake.older("alerts")) is not None:
            known |= await _older(lake, goes_on, {field: value}, known["alerts"], limit)
        figures = await _figures(deps, field, value, known["alerts"])
        return json_answer({"field": field, "value": value, **figures, **known})

    return routes


def known_of_entity(deps: Dependencies, field: str, value: str, limit: int) -> dict[str, Any]:
    """What the store, the rule log and the lists say of it."""
    key = {field: value}
    with closing(deps.store()) as store:
        alerts, more = listed(store, AlertFilter(key=key), None, limit, matching(None, None, store))
        events = rulebook(deps.config).events
        held = all_held(events, store, deps.now_ms(), key) if events else []
    return {
        "alerts": alerts,
        "alerts_more": more is not None,
        "decisions": _decisions(deps, alerts, limit),
        "holds": [each.to_json() for each in held],
        "lists": lists_with(deps, value),
    }


async def _older(
    lake: LakeReads, goes_on: LakePlace, key: Mapping[str, str], alerts: list[Mapping[str, Any]], limit: int
) -> dict[str, Any]:
    """The alerts with those of the lake that are older than the store; without them, if it cannot be read now."""
    try:
        older = await lake.alerts(AlertFilter(key=key), goes_on, max(1, limit - len(alerts)))
    except (CrosslineError, ProblemError):
        return {"alerts_more": True}
    whole = [*alerts, *older.rows]
    return {"alerts": whole[:limit], "alerts_more": len(whole) > limit or older.next is not None}


def lists_with(deps: Dependencies, value: str) -> list[dict[str, Any]]:
    """The entries that are the value, of lists in which it stands now."""
    entries = entries_of(deps.config)
    found = (named(name, entries[name], value) for name in sorted(entries))
    return [each.to_json() for each in found if each is not None and each.until_ms > deps.now_ms()]


def _decisions(deps: Dependencies, alerts: Iterable[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """Those on the records of its alerts: records without a hit cannot be found by key."""
    found: dict[str, Mapping[str, Any]] = {}
    for stream, record_id in dict.fromkeys((each["stream"], each["record_id"]) for each in alerts):
        for each in found_decisions(deps, record_id, stream, None, limit):
            found[each["decision_id"]] = each
    return list(found.values())[:limit]


async def _figures(deps: Dependencies, field: str, value: str, alerts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    why = {}
    if deps.figures is not None:
        try:
            now = await deps.figures.figures(field, value)
        except CrosslineError as error:
            why = {"figures_missing": str(error)}
        else:
            return {"figures": now.figures, "figures_as_of": "replica", "missing": now.missing}
    last: dict[str, Mapping[str, Any]] = {}
    for each in alerts:
        if each["kind"] == "alert" and each["rule_id"] not in last and len(each["key"]) == 1:
            last[each["rule_id"]] = {name: each[name] for name in _OF_FIGURES}
    return {"figures": list(last.values()), "figures_as_of": "alerts", **why}
