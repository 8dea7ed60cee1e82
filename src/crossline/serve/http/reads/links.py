"""``/v1/entities/{field}/{value}/links``: who else belongs to an entity."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from crossline.basics.errors import UsageError
from crossline.basics.times import instant_text
from crossline.rule_registry.outcomes.manual_holds import held_by_hand
from crossline.rules.policy.words import ACTIONS
from crossline.serve.cases.links.traversal import DEPTH_MAX, walked
from crossline.serve.cases.links.values import Entity, Linked
from crossline.serve.cases.rows import PREFIX
from crossline.serve.cases.summary import severity_word
from crossline.serve.http.cases.requests import desk_of
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.principals import needs
from crossline.serve.http.problems import ProblemError
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.held_keys import all_held
from crossline.serve.http.reads.rulebook import rulebook

DEPTH = 2
Held = Mapping[Entity, str]


def link_routes(deps: Dependencies) -> APIRouter:
    """The route of links; before that of entities, whose value may be any rest of an address."""
    routes = APIRouter(tags=["entities"])

    @routes.get(
        "/v1/entities/{field}/{value:path}/links",
        openapi_extra=needs("read:alerts"),
        summary="Who else belongs to an entity, through alerts and cases",
    )
    def links(
        request: Request,
        field: Annotated[str, Path(max_length=200, description="A field of alerts, such as card_hash.")],
        value: Annotated[str, Path(max_length=1_000, description="Its value, as text.")],
        depth: Annotated[int, Query(ge=1, le=DEPTH_MAX, description="How many steps are gone.")] = DEPTH,
    ) -> Any:
        """Two entities are linked where both stand in one alert that is in a case.

        `entities`: by their `steps` from the first, which is the entity itself; `links`: by the places of both among
        these. An entity that does not join alerts (`joins`) is returned, and its own links are not followed. `more`:
        how many others stand beside it. `left_out`: known entities that are not returned, the closest first, and cases
        that were not read.
        """
        only_known(request)
        return json_answer(links_of(deps, (field, value), depth))

    return routes


def links_of(deps: Dependencies, start: Entity, depth: int) -> dict[str, Any]:
    """The graph around an entity, and what of it is held now."""
    graph = walked(desk_of(deps).file, start, depth)
    held = _held(deps, {each.entity for each in graph.entities})
    return {
        "field": start[0],
        "value": start[1],
        "depth": depth,
        "entities": [_entity(each, held) for each in graph.entities],
        "links": [
            {
                "source": each.source,
                "target": each.target,
                "alerts": each.alerts,
                "cases": each.cases,
                "last_at": instant_text(each.last_ms),
            }
            for each in graph.links
        ],
        "left_out": {"entities": graph.left_out.entities, "cases": graph.left_out.cases},
    }


def _entity(of: Linked, held: Held) -> dict[str, Any]:
    return {
        "field": of.entity[0],
        "value": of.entity[1],
        "steps": of.steps,
        "joins": of.joins,
        "cases": of.cases,
        "case_numbers": [f"{PREFIX}{each}" for each in of.numbers],
        "fraud_cases": of.fraud,
        "severity": severity_word(of.severity),
        "decision": None if of.decision < 0 else ACTIONS[of.decision],
        "held_until": held.get(of.entity),
        "more": of.more,
    }


def _held(deps: Dependencies, entities: set[Entity]) -> dict[Entity, str]:
    """Until when each of these is held, that is, a key which has its value."""
    events, now_ms = rulebook(deps.config).events, deps.now_ms()
    if not events:
        return {}
    try:
        with closing(deps.store()) as store:
            holds = [each.to_json() for each in all_held(events, store, now_ms)]
    except (UsageError, ProblemError):  # nothing was delivered yet, or no sink is a store: people alone hold then
        holds = [each.to_json() for each in held_by_hand(events, now_ms)]
    found: dict[Entity, str] = {}
    for hold in holds:
        for name, value in hold["key"].items():
            entity = name, value if isinstance(value, str) else str(value)
            if entity in entities:
                found[entity] = max(found.get(entity, ""), hold["until"])
    return found
