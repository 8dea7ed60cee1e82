"""A schema and a stream's fields, compiled to a list of instructions that the kernel runs for each record.

Nested records and branches of unions are laid out in sequence; jumps only go forwards. Lists, mismatched types and
recursive types have no instruction: such a record takes the slow path, which is the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from crossline.basics.values import I64
from crossline.ingest.avro.binary import Want
from crossline.ingest.avro.cells import DAY_S, TIMES_OF_DAY, UNITS
from crossline.ingest.avro.schema import Node
from crossline.ingest.decode.clock import NANOS, UNIT_CODES
from crossline.ingest.decode.layout import Column, RecordLayout
from crossline.ingest.decode.record import BOOLEAN, INTEGER, LIST, NUMBER, STRING, TIME_NUMBER, TIME_TEXT

# A step: what it is, the column that it fills (-1: none), and two numbers of its own.
STOP, DOUBTFUL, BRANCH, JUMP, BYTES, FIXED, EMPTY, BOOL, INT, LONG, SCALED, REAL, DOUBLE, FLOAT, DECIMAL = range(15)
TEXT, ENUM, STAMP, DATE, TEXT_STAMP = range(15, 20)
KIND, TARGET, A, B = range(4)
STEPS_MAX, DEPTH_MAX = 4_096, 24
POWER_MAX = 22  # up to here every power of ten is a double

_Step = list[int]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """``steps`` int64[n, 4]. ``symbols``: of all enums, one behind the other, and where each of them ends."""

    steps: I64
    symbols: bytes
    ends: I64


class _TooLargeError(Exception):
    """The list of steps would have no end in sight."""


def compile_program(layout: RecordLayout, want: Want, units: list[int | None], schema: Node) -> Program | None:
    """The steps of a schema; None where there would be too many."""
    writer = _Writer(layout.columns, units)
    try:
        writer.value(schema, want, 0)
    except _TooLargeError:
        return None
    writer.add(STOP)
    sizes = [len(each) for each in writer.symbols]
    return Program(np.array(writer.steps, np.int64), b"".join(writer.symbols), np.cumsum([0, *sizes], dtype=np.int64))


@dataclass(slots=True)
class _Writer:
    columns: tuple[Column, ...]
    units: list[int | None]
    steps: list[_Step] = field(default_factory=list)
    symbols: list[bytes] = field(default_factory=list)

    def add(self, kind: int, target: int = -1, a: int = 0, b: int = 0) -> None:
        if len(self.steps) >= STEPS_MAX:
            raise _TooLargeError
        self.steps.append([kind, target, a, b])

    def value(self, node: Node, target: int | Want | None, depth: int) -> None:
        """Compile a value: it is skipped, fills a column, or contains values that do."""
        if depth > DEPTH_MAX:
            self.add(DOUBTFUL)
        elif node.kind == "union":
            self._union(node, target, depth)
        elif target is None:
            self._skip(node, depth)
        elif isinstance(target, int):
            self._column(node, target)
        elif node.kind == "record":
            for name, inner in node.fields:
                self.value(inner, target.get(name), depth + 1)
        elif node.kind != "null" or depth == 0:
            self.add(DOUBTFUL)

    def _union(self, node: Node, target: int | Want | None, depth: int) -> None:
        self.add(BRANCH, -1, len(node.inner))
        table = len(self.steps)
        for _ in node.inner:
            self.add(JUMP)
        ends = []
        for number, branch in enumerate(node.inner):
            self.steps[table + number][A] = len(self.steps)
            if branch.kind == "null" and depth == 0:
                self.add(DOUBTFUL)
            self.value(branch, target, depth + 1)
            ends.append(len(self.steps))
            self.add(JUMP)
        for end in ends:
            self.steps[end][A] = len(self.steps)

    def _skip(self, node: Node, depth: int) -> None:
        kind = node.kind
        if not node.width:
            return
        if kind == "record":
            for _, inner in node.fields:
                self.value(inner, None, depth + 1)
        elif kind in {"string", "bytes"}:
            self.add(BYTES)
        elif kind in {"float", "double", "fixed"}:
            self.add(FIXED, -1, {"float": 4, "double": 8}.get(kind, node.size))
        elif kind in {"array", "map"}:
            self.add(EMPTY)
        elif kind == "enum":
            self.add(ENUM, -1, len(node.symbols), -1)
        else:
            self.add({"boolean": BOOL, "int": INT, "long": LONG}[kind])

    def _column(self, node: Node, number: int) -> None:
        """The step that fills a column; where the type does not fit, the slow path refuses the record."""
        if node.kind == "null":
            return
        kind = self.columns[number].kind
        if kind == STRING:
            self._text(node, number)
        elif kind == BOOLEAN and node.kind == "boolean":
            self.add(BOOL, number)
        elif kind in {INTEGER, NUMBER}:
            self._number(node, number, kind)
        elif kind == LIST:
            self.add(DOUBTFUL)
        else:
            self._stamp(node, number)

    def _text(self, node: Node, number: int) -> None:
        if node.kind == "string":
            self.add(TEXT, number)
        elif node.kind == "enum":
            self.add(ENUM, number, len(node.symbols), len(self.symbols))
            self.symbols += [symbol.encode("utf-8", "replace") for symbol in node.symbols]
        else:
            self.add(DOUBTFUL)

    def _number(self, node: Node, number: int, kind: int) -> None:
        unit, given = self.units[number], UNITS.get(node.logical)
        plain = unit is None or given is None or given == unit
        if node.kind in {"int", "long"} and plain:
            self.add(
                {"int": INT, "long": LONG}[node.kind] if kind == INTEGER else REAL, number, int(node.kind == "int")
            )
        elif node.kind == "long" and kind == INTEGER and unit is not None and given is not None:
            self.add(SCALED, number, int(NANOS[given]), int(NANOS[unit]))
        elif kind == NUMBER and node.kind in {"double", "float"}:
            self.add(DOUBLE if node.kind == "double" else FLOAT, number)
        elif kind == NUMBER and node.logical == "decimal" and node.scale <= POWER_MAX:
            self.add(DECIMAL, number, node.size if node.kind == "fixed" else -1, node.scale)
        else:
            self.add(DOUBTFUL)

    def _stamp(self, node: Node, number: int) -> None:
        column = self.columns[number]
        if node.logical in UNITS:
            self.add(STAMP, number, UNITS[node.logical])
        elif node.logical == "date":
            self.add(DATE, number, UNIT_CODES["s"], DAY_S)
        elif node.kind == "long" and column.kind != TIME_TEXT and node.logical not in TIMES_OF_DAY:
            self.add(STAMP, number, column.unit)
        elif node.kind == "string" and column.kind != TIME_NUMBER:
            self.add(TEXT_STAMP, number)
        else:
            self.add(DOUBTFUL)
