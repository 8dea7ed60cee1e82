"""The bytes of one record, read by its writer's schema, and trusted in nothing.

A length, a count or a number of a branch may be anything, and records may lie within records without end. The reader of
fastavro, which the tests compare this one with, follows such a ring until its process dies, takes 2^62 items of no
bytes for a list, and counts a negative symbol from the end; so it is not let near bytes that others send.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crossline.ingest.avro.schema import Node

DEPTH_MAX = 64
LONG_BYTES_MAX = 10
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_INT_END = 1 << 31
_LONG_END = 1 << 64


class MalformedError(Exception):
    """The bytes do not match the schema. ``path``: the fields around the fault, outermost first."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.path: list[str] = []

    def __str__(self) -> str:
        place = f"field {'.'.join(self.path)}: " if self.path else ""
        return f"{place}{self.args[0]}"


@dataclass(frozen=True, slots=True)
class Found:
    """A value and its type, which is no union. Of arrays and maps: the items; of records: None.

    ``place``: where an object was to be and this stands; empty where the value is that of the field itself.
    """

    node: Node
    value: Any
    place: str = ""


# By field: the number of its column, or what is wanted of a record in it.
Want = Mapping[str, "int | Want"]


class Walk:
    """Goes over ``data`` once, from ``at`` on. Every method raises MalformedError where the bytes do not fit."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.end = len(data)

    def long(self) -> int:
        """A number of the variable form."""
        data, at, end = self.data, self.at, self.end
        bits = shift = 0
        while True:
            if at >= end:
                raise MalformedError(f"the bytes end at byte {end} within a number")
            byte = data[at]
            at += 1
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= 7 * LONG_BYTES_MAX:
                raise MalformedError(f"a number of more than {LONG_BYTES_MAX} bytes at byte {self.at + 1}")
        if bits >= _LONG_END:
            raise MalformedError(f"a number of more than 64 bits at byte {self.at + 1}")
        self.at = at
        return (bits >> 1) ^ -(bits & 1)

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        start, self.at = self.at, self.at + size
        if size < 0 or self.at > self.end:
            raise MalformedError(f"found a length of {size} at byte {start}, where {self.end - start} bytes are left")
        return self.data[start : self.at]

    def finish(self) -> None:
        """Nothing may be left."""
        if self.at < self.end:
            raise MalformedError(f"found {self.end - self.at} bytes behind the record")

    def branch(self, node: Node) -> Node:
        """The type of what comes next, where ``node`` may be a union."""
        if node.kind != "union":
            return node
        number = self.long()
        if not 0 <= number < len(node.inner):
            raise MalformedError(f"found branch {number} of a union of {len(node.inner)} types")
        return node.inner[number]

    def blocks(self, node: Node) -> Iterator[int]:
        """How many items of an array or a map come next, block by block.

        Those of a block must have been read before the next one is requested. Items without bytes come once at most:
        they are no value of any column, and one of them reports it.
        """
        least = node.inner[0].width + (node.kind == "map")
        while count := self.long():
            if count < 0:
                count = -count
                self._size()
            if count * least > self.end - self.at:
                raise MalformedError(
                    f"found {count} items at byte {self.at}, where {self.end - self.at} bytes are left"
                )
            yield count if least else 1

    def _size(self) -> int:
        size = self.long()
        if not 0 <= size <= self.end - self.at:
            raise MalformedError(f"found a block of {size} bytes at byte {self.at}, of {self.end}")
        return size

    def plain(self, node: Node) -> Any:  # noqa: PLR0911 - a way out for each type
        """A value of a type that holds no others: texts and enums as bytes and number of the symbol."""
        kind = node.kind
        if kind in {"string", "bytes"}:
            return self.take(self.long())
        if kind in {"long", "int"}:
            number = self.long()
            if kind == "int" and not -_INT_END <= number < _INT_END:
                raise MalformedError(f"found {number}, which is no int")
            return number
        if kind == "double":
            return _DOUBLE.unpack(self.take(8))[0]
        if kind == "float":
            return _FLOAT.unpack(self.take(4))[0]
        if kind == "fixed":
            return self.take(node.size)
        if kind == "boolean":
            byte = self.take(1)[0]
            if byte > 1:
                raise MalformedError(f"found {byte}, which is no boolean")
            return byte == 1
        if kind == "enum":
            number = self.long()
            if not 0 <= number < len(node.symbols):
                raise MalformedError(f"found symbol {number} of an enum of {len(node.symbols)}")
            return number
        return None

    def skip(self, node: Node, depth: int) -> None:
        """Go past a value. What is not declared has no bytes looked at but those that say how long it is."""
        if not node.width:
            return
        node = self.branch(node)
        if node.kind in {"array", "map"}:
            (item,) = node.inner
            for count in self.blocks(node):
                for _ in range(count):
                    if node.kind == "map":
                        self.take(self.long())
                    self.skip(item, _deeper(depth))
        elif node.kind == "record":
            for _, inner in node.fields:
                self.skip(inner, _deeper(depth))
        else:
            self.plain(node)

    def found(self, node: Node, depth: int) -> Found:
        """A value for a column: plain, or a list of plain ones; of anything else only what it is."""
        node = self.branch(node)
        if node.kind in {"array", "map"}:
            return Found(node, self._items(node, _deeper(depth)))
        if node.kind == "record":
            self.skip(node, depth)
            return Found(node, None)
        return Found(node, self.plain(node))

    def _items(self, node: Node, depth: int) -> list[Found]:
        (item,) = node.inner
        items: list[Found] = []
        for count in self.blocks(node):
            for _ in range(count):
                if node.kind == "map":
                    self.take(self.long())
                items.append(self.found(item, depth))
        return items

    def record(self, node: Node, want: Want, into: list[Found | None], depth: int, place: str = "") -> None:
        """The fields of a record that are wanted, into their columns. ``place``: its dotted name."""
        for name, inner in node.fields:
            target = want.get(name)
            try:
                if target is None:
                    self.skip(inner, _deeper(depth))
                elif isinstance(target, int):
                    into[target] = self.found(inner, _deeper(depth))
                else:
                    self._object(inner, target, into, _deeper(depth), f"{place}{name}.")
            except MalformedError as error:
                error.path.insert(0, name)
                raise

    def _object(self, node: Node, want: Want, into: list[Found | None], depth: int, place: str) -> None:
        """What is wanted of a record or a map within a record; a map is an object whose fields are its keys."""
        node = self.branch(node)
        if node.kind == "record":
            self.record(node, want, into, depth, place)
        elif node.kind == "map":
            self._map(node, want, into, depth, place)
        elif node.kind != "null":
            given = Found(node, self.found(node, depth).value, place[:-1])
            for number in _columns(want):
                into[number] = given

    def _map(self, node: Node, want: Want, into: list[Found | None], depth: int, place: str) -> None:
        (item,) = node.inner
        met: set[str] = set()
        for count in self.blocks(node):
            for _ in range(count):
                name = self.take(self.long()).decode("utf-8", "replace")
                if name in met:
                    raise MalformedError(f"key {name} stands twice in a map")
                if name in want:
                    met.add(name)
                self.record(Node("record", fields=((name, item),)), want, into, depth, place)


def _deeper(depth: int) -> int:
    if depth >= DEPTH_MAX:
        raise MalformedError(f"records or lists are nested deeper than {DEPTH_MAX} levels")
    return depth + 1


def _columns(want: Want) -> Iterator[int]:
    for target in want.values():
        if isinstance(target, int):
            yield target
        else:
            yield from _columns(target)
