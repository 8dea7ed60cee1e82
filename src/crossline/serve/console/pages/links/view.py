"""``/links/{field}/{value}``: who else belongs to an entity, as a drawing and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from crossline.basics.times import parse_instant_ms
from crossline.serve.cases.links.traversal import DEPTH_MAX
from crossline.serve.console.api_calls import called
from crossline.serve.console.casework.rows import short
from crossline.serve.console.layout.numbers import counted
from crossline.serve.console.layout.shell import Crumb, ShortcutKey
from crossline.serve.console.pages.entities.rows import entity_address, links_address
from crossline.serve.console.pages.links.context import Beside, EntityRow, LinksPage
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest

LINKS = "/v1/entities/{field}/{value:path}/links"
DEPTH, BESIDE_MAX, NUMBERS_MAX = 2, 3, 2
SHAPES = ("ellipse", "rectangle", "diamond", "hexagon", "triangle")
OTHER = "octagon"
KEYS = (ShortcutKey(("1", "2", "3"), "so many steps"), ShortcutKey(("i",), "the entity's page"))


async def view(asked: PageRequest) -> LinksPage:
    """The graph around an entity, from the API."""
    depth = asked.whole("depth", 1, DEPTH_MAX, DEPTH)
    field, value = asked.path["field"], asked.path["value"]
    graph = await called(asked, "GET", LINKS, {"field": field, "value": value}, query={"depth": depth})
    entities: Sequence[Mapping[str, Any]] = graph["entities"]
    kinds = _kinds(entities)
    crumbs = (Crumb("Entities", "/entities"), Crumb(short(value), entity_address(field, value)), Crumb("Links"))
    scripts = ("vendor/cytoscape.js", "js/links.js")
    return LinksPage(
        shell=asked.shell(f"Links of {field} {short(value)}", crumbs, KEYS, scripts),
        field=field,
        value=value,
        text=short(value),
        entity=entity_address(field, value),
        depths=tuple(
            (each, f"{links_address(field, value)}?depth={each}", each == depth) for each in range(1, DEPTH_MAX + 1)
        ),
        facts=tuple(_facts(graph)),
        caption=_conclusion(graph),
        left_out=_left_out(graph["left_out"]),
        kinds=tuple(kinds.items()),
        rows=tuple(_rows(asked, graph)),
        graph=_graph(graph, kinds),
    )


def is_stopped(each: Mapping[str, Any]) -> bool:
    """Whether it is held, or a record of it was blocked."""
    return each["held_until"] is not None or each["decision"] == "block"


def _kinds(entities: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The shape of each field, that of the first entity first, then those of which there are most."""
    counts = Counter(each["field"] for each in entities)
    fields = [entities[0]["field"], *sorted(counts, key=lambda name: (-counts[name], name))]
    shapes = (*SHAPES, *(OTHER for _ in fields))
    return dict(zip(dict.fromkeys(fields), shapes, strict=False))


def _facts(graph: Mapping[str, Any]) -> Iterator[str]:
    others = graph["entities"][1:]
    stopped = sum(map(is_stopped, others))
    yield f"{counted(len(others), 'other entity', 'other entities')} within {counted(graph['depth'], 'step')}"
    yield f"{stopped:,} held or blocked" if stopped else "none held or blocked"
    yield counted(len(graph["links"]), "link")
    if fraud := sum(1 for each in others if each["fraud_cases"]):
        yield f"{fraud:,} in cases of fraud"


def _conclusion(graph: Mapping[str, Any]) -> str:
    """What a person would conclude of the drawing."""
    near = [each for each in graph["entities"] if each["steps"] == 1]
    beyond = len(graph["entities"]) - 1 - len(near)
    stopped = sum(map(is_stopped, graph["entities"][1:]))
    return (
        f"Drawing of links: {counted(len(near), 'entity', 'entities')} in the same alerts, {beyond:,} farther away, "
        f"{stopped:,} held or blocked. The table shows the same."
    )


def _left_out(left: Mapping[str, int]) -> str:
    parts = []
    if left["entities"]:
        parts.append(f"{counted(left['entities'], 'entity', 'entities')} that share fewer alerts")
    if left["cases"]:
        parts.append(f"the alerts of {counted(left['cases'], 'older case')}")
    return f"Left out, to stay within bounds: {' and '.join(parts)}." if parts else ""


def _rows(asked: PageRequest, graph: Mapping[str, Any]) -> Iterator[EntityRow]:
    entities = graph["entities"]
    beside: dict[int, list[tuple[int, Mapping[str, Any]]]] = {}
    for link in graph["links"]:
        beside.setdefault(link["target"], []).append((link["source"], link))
    for place, each in enumerate(entities[1:], 1):
        linked = sorted(beside.get(place, []), key=lambda one: (entities[one[0]]["steps"], -one[1]["alerts"], one[0]))
        held = each["held_until"]
        yield EntityRow(
            place=place,
            field=each["field"],
            value=each["value"],
            text=short(each["value"]),
            address=entity_address(each["field"], each["value"]),
            around=links_address(each["field"], each["value"]),
            steps=each["steps"],
            decision=each["decision"] or "",
            held=None if held is None else asked.times.moment(parse_instant_ms(held)),
            fraud=each["fraud_cases"],
            cases=each["cases"],
            numbers=tuple(each["case_numbers"][:NUMBERS_MAX]),
            beside=tuple(_beside(entities[at], link) for at, link in linked[:BESIDE_MAX]),
            beside_more=max(0, len(linked) - BESIDE_MAX),
            more=each["more"],
            found_only=not each["joins"],
        )


def _beside(entity: Mapping[str, Any], link: Mapping[str, Any]) -> Beside:
    caption = counted(link["alerts"], "alert") if link["alerts"] else counted(link["cases"], "case")
    return Beside(entity["field"], entity["value"], short(entity["value"]), caption)


def _graph(graph: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """What the drawing needs, and no more."""
    nodes = [
        {
            "text": short(each["value"]),
            "shape": kinds[each["field"]],
            "stopped": "held" if each["held_until"] is not None else "blocked" if each["decision"] == "block" else "",
            "steps": each["steps"],
            "path": links_address(each["field"], each["value"]),
        }
        for each in graph["entities"]
    ]
    links = [[each["source"], each["target"], each["alerts"]] for each in graph["links"]]
    return orjson.dumps({"nodes": nodes, "links": links}).decode()


PAGE = Page("links", (PageRoute("GET", "/links/{field}/{value:path}", view),))
