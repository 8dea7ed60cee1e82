"""Finds the entry of the route table that an address belongs to, and routes of an app that have none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crossline.serve.access.roles import ENDLESS, ROUTES, STREAM_NAME, Need

_PARAMETER = re.compile(r"\{([a-z_]+)(:path)?\}(.*)")
# What a part of an address may be: ids are any text, but what another program might read as a place in folders, or
# as a second line. A slash in an id is written %2F by who asks and decoded by the server: it is then two parts, which
# only a parameter that takes all the rest (`{record_id:path}`) puts together again.
_PART = re.compile(r"(?!\.{1,2}\Z)[^\x00-\x1f\x7f/�]{1,1024}")
_CACHED_MAX = 256


class Route(NamedTuple):
    """A route of the table: its ``template``, what it needs, and the stream that the address names, if it names one."""

    template: str
    need: Need
    stream: str | None = None


@dataclass(slots=True)
class _Node:
    literal: dict[str, _Node] = field(default_factory=dict)
    # By what stands behind the parameter, the longest first: ("stream", ":batch"), then ("stream", "").
    parameter: dict[tuple[str, str], _Node] = field(default_factory=dict)
    # By method what takes all the rest but for a tail, such as `{value:path}/links`: the longest tail first.
    rest: dict[str, list[tuple[tuple[str, ...], Route]]] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)


class RouteTable:
    """The table, for looking up addresses in a few microseconds."""

    def __init__(self, routes: Mapping[tuple[str, str], Need] = ROUTES) -> None:
        self._root = _Node()
        self._cached: dict[tuple[str, str], Route] = {}
        self._methods = sorted({"HEAD", *(method for method, _ in routes)})
        for (method, template), need in routes.items():
            self._add(method, template, need)

    def find(self, method: str, path: str) -> Route | None:
        """The route of ``method`` and the decoded ``path``, the most literal first; None if there is none."""
        cached = self._cached.get((method, path))
        if cached is not None:
            return cached
        route = self._match(method, path, STREAM_NAME)
        if route is not None and route.stream is not None and len(self._cached) < _CACHED_MAX:
            self._cached[method, path] = route
        return route

    def methods(self, path: str) -> dict[str, Route]:
        """The route of each method that the decoded ``path`` supports, even if what it has for a stream names none."""
        found = ((method, self._match(method, path, _PART)) for method in self._methods)
        return {method: route for method, route in found if route is not None}

    def _match(self, method: str, path: str, stream: re.Pattern[str]) -> Route | None:
        if not path.startswith("/"):
            return None
        asked = "GET" if method == "HEAD" else method
        route = _match(self._root, path[1:].split("/"), 0, asked, None, stream)
        return None if method == "HEAD" and route is not None and route.template in ENDLESS else route

    def _add(self, method: str, template: str, need: Need) -> None:
        node = self._root
        parts = template[1:].split("/")
        for at, part in enumerate(parts):
            parameter = _PARAMETER.fullmatch(part)
            if parameter is None:
                node = node.literal.setdefault(part, _Node())
                continue
            if parameter[2]:
                several = node.rest.setdefault(method, [])
                several.append((tuple(parts[at + 1 :]), Route(template, need)))
                several.sort(key=lambda each: -len(each[0]))
                return
            key = (parameter[1], parameter[3])
            node.parameter.setdefault(key, _Node())
            node.parameter = dict(sorted(node.parameter.items(), key=lambda each: -len(each[0][1])))
            node = node.parameter[key]
        node.routes[method] = Route(template, need)


def _match(
    node: _Node, parts: list[str], at: int, method: str, stream: str | None, streams: re.Pattern[str]
) -> Route | None:
    if at == len(parts):
        route = node.routes.get(method)
        return route if route is None or stream is None else route._replace(stream=stream)
    part = parts[at]
    literal = node.literal.get(part)
    if literal is not None and (route := _match(literal, parts, at + 1, method, stream, streams)) is not None:
        return route
    for (name, suffix), below in node.parameter.items():
        if not part.endswith(suffix):
            continue
        value = part[: len(part) - len(suffix)]
        if (streams if name == "stream" else _PART).fullmatch(value) is None:
            continue
        named = value if name == "stream" else stream
        if (route := _match(below, parts, at + 1, method, named, streams)) is not None:
            return route
    for tail, rest in node.rest.get(method, ()):
        end = len(parts) - len(tail)
        if end > at and tuple(parts[end:]) == tail and all(_PART.fullmatch(each) for each in parts[at:end]):
            return rest if stream is None else rest._replace(stream=stream)
    return None


def is_part(text: str) -> bool:
    """Whether it can stand between two slashes of an address."""
    return _PART.fullmatch(text) is not None


def check_routes(routes: Iterable[Any], table: Mapping[tuple[str, str], Need] = ROUTES) -> list[str]:
    """Routes of an app (``app.routes``) that the table has no entry for, as ``METHOD TEMPLATE``.

    Each of them is refused to everybody; a test holds this empty.
    """
    known = {(method, _shape(template)) for method, template in table}
    return [
        f"{method} {template}"
        for template, methods in _templates(routes, "")
        for method in sorted(methods - {"HEAD"})
        if (method, _shape(template)) not in known
    ]


def _templates(routes: Iterable[Any], prefix: str) -> Iterable[tuple[str, set[str]]]:
    for route in routes:
        included = getattr(route, "effective_route_contexts", None)
        if included is not None:  # a router within a FastAPI app, which puts its addresses together itself
            yield from _templates([getattr(each, "starlette_route", None) or each for each in included()], prefix)
            continue
        below = getattr(route, "routes", None)
        template = prefix + getattr(route, "path", "")
        if below:
            yield from _templates(below, template)
        else:
            yield template, set(getattr(route, "methods", None) or {"(any method)"})


def _shape(template: str) -> str:
    """``template``, whatever its parameters are called; but a stream is a stream."""
    return re.sub(
        r"\{(\w+)(:\w+)?\}", lambda found: "{stream}" if found[1] == "stream" else "{}" + (found[2] or ""), template
    )
