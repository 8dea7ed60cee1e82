"""A writer's schema as a graph of nodes that a reader walks. What only a reader's schema would need is left out.

Defaults, aliases and documentation say nothing of the bytes. A logical type that does not fit its type is passed over,
as the specification asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Levels of a schema's own text; a deeper one was not written to be read.
NESTED_MAX = 200
FIXED_BYTES_MAX = 1 << 30
SCALE_MAX = 1_000
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
STAMPS = tuple(f"{place}timestamp-{unit}" for place in ("", "local-") for unit in ("millis", "micros", "nanos"))
_LOGICAL = {
    **dict.fromkeys(STAMPS, ("long",)),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "uuid": ("string", "fixed"),
    "decimal": ("bytes", "fixed"),
}
_WIDTHS = {"null": 0, "float": 4, "double": 8}
_UUID_BYTES = 16


class SchemaError(Exception):
    """The schema is not supported; the text has the reason."""


@dataclass(slots=True, eq=False)
class Node:
    """One type of a schema; types that contain themselves are rings of nodes.

    ``kind``: as Avro calls it. ``logical``: empty where there is none. ``scale``: of a decimal. ``size``: of a fixed.
    ``inner``: what an array, a map or a union holds. ``fields``: of a record, by name. ``width``: 0 where a value has
    no bytes at all, else so many that it has them at least.
    """

    kind: str
    logical: str = ""
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    inner: tuple[Node, ...] = ()
    fields: tuple[tuple[str, Node], ...] = ()
    width: int = 1

    def __str__(self) -> str:
        return self.logical or self.kind


def read_schema(texts: Sequence[str]) -> Node:
    """The schema that the last of ``texts`` is; those before it are schemas that it refers to. Raises SchemaError."""
    reading = _Reading()
    node = Node("null")
    for text in texts:
        try:
            node = reading.node(json.loads(text), "", 0)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"its text is no JSON: {error}") from None
    _set_widths(reading.records)
    return node


@dataclass(slots=True)
class _Reading:
    names: dict[str, Node] = field(default_factory=dict)
    records: list[Node] = field(default_factory=list)

    def node(self, given: Any, space: str, depth: int) -> Node:
        """The node of one type; ``space``: the namespace around it."""
        if depth > NESTED_MAX:
            raise SchemaError(f"its types are nested deeper than {NESTED_MAX} levels")
        if isinstance(given, str):
            return self._named(given, space)
        if isinstance(given, list):
            branches = tuple(self.node(each, space, depth + 1) for each in given)
            if not branches or any(each.kind == "union" for each in branches):
                raise SchemaError("a union in it is empty, or holds a union")
            return Node("union", inner=branches)
        kind = given.get("type") if isinstance(given, dict) else None
        if isinstance(kind, dict | list):
            return self.node(kind, space, depth + 1)
        if not isinstance(kind, str):
            raise SchemaError(f"found {_short(given)}, expected a type")
        made = _MADE.get(kind)
        if made is not None:
            return _logical(made(self, given, space, depth), given)
        node = self._named(kind, space)
        return _logical(node, given) if kind in PRIMITIVES else node

    def _named(self, name: str, space: str) -> Node:
        if name in PRIMITIVES:
            return Node(name, width=_WIDTHS.get(name, 1))
        for known in (name if "." in name or not space else f"{space}.{name}", name):
            if known in self.names:
                return self.names[known]
        raise SchemaError(f"it names the type {_short(name)}, which is not in it")

    def _declared(self, given: Mapping[str, Any], space: str, kind: str) -> tuple[Node, str]:
        """A new named type, and the namespace of what stands in it."""
        name, own = given.get("name"), given.get("namespace", space)
        if not isinstance(name, str) or not isinstance(own, str):
            raise SchemaError(f"a {kind} in it has no name")
        full = name if "." in name or not own else f"{own}.{name}"
        if full in self.names:
            raise SchemaError(f"it declares {_short(full)} twice")
        node = self.names[full] = Node(kind, width=int(kind != "record"))
        return node, full.rpartition(".")[0]

    def record(self, given: Mapping[str, Any], space: str, depth: int) -> Node:
        """A record, whose name its own fields may use."""
        node, own = self._declared(given, space, "record")
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise SchemaError("a record in it has no fields")
        read: dict[str, Node] = {}
        for each in fields:
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or "type" not in each or name in read:
                raise SchemaError(f"found {_short(each)}, expected a field with a name of its own and a type")
            read[name] = self.node(each["type"], own, depth + 1)
        node.fields = tuple(read.items())
        self.records.append(node)
        return node

    def enum(self, given: Mapping[str, Any], space: str, depth: int) -> Node:  # noqa: ARG002 - as the others
        """An enum."""
        node, _ = self._declared(given, space, "enum")
        symbols = given.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise SchemaError("an enum in it has no list of symbols")
        node.symbols = tuple(symbols)
        return node

    def fixed(self, given: Mapping[str, Any], space: str, depth: int) -> Node:  # noqa: ARG002 - as the others
        """So many bytes."""
        node, _ = self._declared(given, space, "fixed")
        size = given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= FIXED_BYTES_MAX:
            raise SchemaError(f"found the size {_short(size)} of a fixed, expected 0 to {FIXED_BYTES_MAX} bytes")
        node.size = node.width = size
        return node

    def many(self, given: Mapping[str, Any], space: str, depth: int) -> Node:
        """An array or a map."""
        kind, of = given["type"], "items" if given["type"] == "array" else "values"
        if of not in given:
            raise SchemaError(f"an {kind} in it has no {of}")
        return Node(kind, inner=(self.node(given[of], space, depth + 1),))


_Make = Callable[[_Reading, Mapping[str, Any], str, int], Node]
_MADE: dict[str, _Make] = {
    "record": _Reading.record,
    "error": _Reading.record,
    "enum": _Reading.enum,
    "fixed": _Reading.fixed,
    "array": _Reading.many,
    "map": _Reading.many,
}


def _logical(node: Node, given: Mapping[str, Any]) -> Node:
    """``node`` with the logical type of ``given``, if that fits the node."""
    name = given.get("logicalType")
    if not isinstance(name, str) or node.kind not in _LOGICAL.get(name, ()):
        return node
    if name == "uuid" and node.kind == "fixed" and node.size != _UUID_BYTES:
        return node
    if name == "decimal":
        scale, precision = given.get("scale", 0), given.get("precision")
        if type(scale) is not int or type(precision) is not int or not 0 <= scale <= min(precision, SCALE_MAX):
            return node
        node.scale = scale
    node.logical = name
    return node


def _set_widths(records: Sequence[Node]) -> None:
    """Whether each record has bytes at all; those within others come first, but for records that contain themselves."""
    before = -1
    while before != (now := sum(node.width for node in records)):
        before = now
        for node in records:
            node.width = int(any(inner.width for _, inner in node.fields))


def _short(given: Any) -> str:
    text = given if isinstance(given, str) else json.dumps(given)
    return text if len(text) <= 60 else f"{text[:60]}…"
