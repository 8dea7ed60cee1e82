"""What a declaration of memory is made of: words of a table, fields of a row, and parts of a row that repeat.

Each declaring method records its arguments and returns a ``Declared``: an ``int``, the number of the word or the offset
of the field. It also carries how the value is reached and how wide it is. Kernels get and put by it (``fields``).
All else asks the declaration: ``Table.words``, ``Row.fields``, ``Row.parts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Holds = Literal["", "record", "slot"]
# How long the value of a word lives: as long as the state, until the next plan, as scratch of the kernel, or one batch.
Life = Literal["state", "plan", "scratch", "hits", "batch"]
Role = Literal["count", "number", "offset", "array", "pool", "table"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of numbers in memory."""

    name: str
    bytes: int
    dtype: Any


I64 = Kind("int64", 8, np.int64)
U64 = Kind("uint64", 8, np.uint64)
F64 = Kind("float64", 8, np.float64)
I32 = Kind("int32", 4, np.int32)
U32 = Kind("uint32", 4, np.uint32)
U8 = Kind("uint8", 1, np.uint8)


Form = Literal["word", "address", "array", "row", "part", "item"]


@dataclass(frozen=True, slots=True)
class Reach:
    """The way from the address of the table to a value, and its type.

    ``form``: a word itself, a word that is an address, an item of an array, a field of a row, of a part of a row, or of
    an item that stands anywhere. ``fixed``: compiled code never writes it. ``number``: of the word, or of that of the
    array or of the rows. ``width``: the word of a row's bytes. ``at``: the word of where the part begins (-1: at
    ``start``). ``offset``: of the field in its item. ``stride``: bytes of an item.
    """

    name: str
    form: Form
    kind: Kind
    fixed: bool = False
    number: int = -1
    width: int = -1
    at: int = -1
    start: int = 0
    offset: int = 0
    stride: int = 0


class Declared(int):
    """The number of a word, or the offset of a field in its row or item, and how it is reached."""

    _reach: Callable[[], Reach]

    @classmethod
    def of(cls, number: int, reach: Callable[[], Reach]) -> Declared:
        """``reach``: called when a kernel is compiled, when all is declared."""
        made = cls(number)
        made._reach = reach
        return made

    @property
    def reach(self) -> Reach:
        """How it is reached."""
        return self._reach()


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the table.

    ``role``: what the word is; an array's, pool's or table's word is its address. ``kind``: of an array's items.
    ``many``: of an array, how many items, in words. ``zeroed``: set to 0 before each batch. ``carried``: a state that
    takes over another takes it along. ``given``: of an array, compiled code only reads it.
    """

    number: int
    name: str
    role: Role
    life: Life
    what: str
    kind: Kind | None = None
    many: str = ""
    zeroed: bool = False
    carried: bool = False
    given: bool = False

    @property
    def reach(self) -> Reach:
        """How compiled code gets at it, or at its items."""
        if self.kind is not None:
            return Reach(self.name, "array", self.kind, self.given, self.number, stride=self.kind.bytes)
        if self.role in {"pool", "table"}:
            return Reach(self.name, "address", I64, fixed=True, number=self.number)
        return Reach(self.name, "word", I64, self.role != "count", self.number)

    @property
    def dtype(self) -> Any:
        """Of an array's items."""
        return self.kind.dtype if self.kind else None


class Table:
    """The table of words."""

    def __init__(self) -> None:
        self.words: list[Word] = []

    def _add(self, name: str, role: Role, life: Life, what: str, **more: Any) -> Declared:
        word = Word(len(self.words), name, role, life, what, **more)
        self.words.append(word)
        return Declared.of(word.number, lambda: word.reach)

    def count(self, name: str, what: str, *, zeroed: bool = False, carried: bool = False) -> Declared:
        """A count that the kernel moves on; all other numbers stay as they are while it runs."""
        return self._add(name, "count", "state", what, zeroed=zeroed, carried=carried)

    def number(self, name: str, what: str, life: Life, *, carried: bool = False) -> Declared:
        """A plain number."""
        return self._add(name, "number", life, what, carried=carried)

    def offset(self, name: str, what: str) -> Declared:
        """Where a part of a row begins; 0 where the plan has none of it."""
        return self._add(name, "offset", "plan", what)

    def array(self, name: str, kind: Kind, many: str, what: str, life: Life, *, given: bool = False) -> Declared:
        """The address of an array; that of a plan is ``given``, too."""
        return self._add(name, "array", life, what, kind=kind, many=many, given=given or life == "plan")

    def pool(self, name: str, what: str, *, carried: bool = False) -> Declared:
        """The address of rows or bytes that grow; ``carried`` as it is, not field by field."""
        return self._add(name, "pool", "state", what, carried=carried)

    def table(self, name: str, what: str, *, carried: bool = False) -> Declared:
        """The address of a table of blocks."""
        return self._add(name, "table", "state", what, carried=carried)

    def numbers(self, *, life: Life | None = None, **flags: Any) -> list[int]:
        """The numbers of the words of a life, or with these attributes."""
        return [
            each.number
            for each in self.words
            if life in {None, each.life} and all(getattr(each, name) == value for name, value in flags.items())
        ]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an item.

    ``holds``: it is the number of a record or a slot, which compaction renumbers; below 0 is none. ``born``: its value
    in a new slot, and in one whose plan is new. ``carried``: a new plan leaves it as it is.
    """

    name: str
    kind: Kind
    offset: int
    what: str
    holds: Holds
    born: int
    carried: bool


class Item:
    """Fields side by side, without gaps. ``array``: the word of the array of such items, if there is one."""

    def __init__(self, what: str, array: int = -1) -> None:
        self.what = what
        self.fields: list[Field] = []
        self.bytes = 0
        self.array = array
        self.part_of: Row | None = None

    def field(
        self, name: str, kind: Kind, what: str, *, holds: Holds = "", born: int | None = None, carried: bool = False
    ) -> Declared:
        """The field's offset. Born as none where it holds a number of a record or a slot, else as 0."""
        value = (-1 if holds else 0) if born is None else born
        field = Field(name, kind, self.bytes, what, holds, value, carried)
        self.fields.append(field)
        self.bytes += kind.bytes
        return Declared.of(field.offset, lambda: self.reach_of(field))

    def reach_of(self, field: Field) -> Reach:
        """How compiled code gets at a field of one of these."""
        if self.part_of is not None:
            return self.part_of.reach_of_part(self, field)
        form: Form = "item" if self.array < 0 else "array"
        return Reach(
            name=field.name,
            form=form,
            kind=field.kind,
            number=int(self.array),
            offset=field.offset,
            stride=self.bytes,
        )


@dataclass(frozen=True, slots=True)
class Part:
    """Items of a row: their count is word ``many``, their first offset word ``at`` (-1: ``offset``)."""

    name: str
    item: Item
    many: int
    at: int
    offset: int
    carried: bool


@dataclass(frozen=True, slots=True)
class Place:
    """One field where it stands in the rows of a plan."""

    name: str
    field: Field
    offset: int
    carried: bool


class Row(Item):
    """Fields at fixed offsets, then parts.

    ``pool``: the word of the address of such rows. ``width``: that of a row's bytes, a multiple of ``even``.
    """

    def __init__(self, what: str, even: int, pool: int, width: int) -> None:
        super().__init__(what)
        self.parts: list[Part] = []
        self.even = even
        self.pool, self.width = int(pool), int(width)

    def reach_of(self, field: Field) -> Reach:
        """How compiled code gets at a fixed field."""
        return Reach(
            name=field.name,
            form="row",
            kind=field.kind,
            number=self.pool,
            width=self.width,
            offset=field.offset,
        )

    def reach_of_part(self, item: Item, field: Field) -> Reach:
        """How compiled code gets at a field of an item of a part."""
        part = next(part for part in self.parts if part.item is item)
        return Reach(
            name=f"{part.name}.{field.name}",
            form="part",
            kind=field.kind,
            number=self.pool,
            width=self.width,
            at=int(part.at),
            start=part.offset,
            offset=field.offset,
            stride=item.bytes,
        )

    def first_part(self, name: str, item: Item, many: int, *, carried: bool = False) -> int:
        """The part that begins where the fixed fields end: its offset."""
        item.part_of = self
        self.parts.append(Part(name, item, many, -1, self.bytes, carried))
        return self.bytes

    def part(self, table: Table, name: str, item: Item, many: int, *, carried: bool = False) -> Declared:
        """The number of the word ``name``_AT, new in ``table``, with the offset at which the part begins."""
        item.part_of = self
        at = table.offset(f"{name}_AT", f"where in the row of {self.what} begins: {item.what}")
        self.parts.append(Part(name, item, many, at, 0, carried))
        return at

    def part_at(self, at: int) -> Part:
        """The part whose offset stands in word ``at``."""
        return next(part for part in self.parts if part.at == at)

    def lay_out(self, words: Any) -> int:
        """Write the offsets of the parts into ``words``, which has their numbers of items; the bytes of a row."""
        place = self.bytes
        for part in self.parts:
            count = int(words[part.many])
            if part.at >= 0:
                words[part.at] = place if count else 0
            place += count * part.item.bytes
        return -(-place // self.even) * self.even

    def places(self, words: Any) -> Iterator[Place]:
        """Every field of a row that was laid out, in order."""
        for field in self.fields:
            yield Place(field.name, field, field.offset, field.carried)
        for part in self.parts:
            start = part.offset if part.at < 0 else int(words[part.at])
            for k in range(int(words[part.many])):
                for field in part.item.fields:
                    offset = start + k * part.item.bytes + field.offset
                    yield Place(f"{part.name}[{k}].{field.name}", field, offset, part.carried)

    def numbers_at(self, words: Any, holds: Holds) -> list[int]:
        """The offsets of all fields that hold numbers of records or slots."""
        return [place.offset for place in self.places(words) if place.field.holds == holds]

    def newborn(self, words: Any, width: int) -> Any:
        """The bytes of a row of ``width`` in which every field is as it is born."""
        row = np.zeros(width, np.uint8)
        for place in self.places(words):
            kind = place.field.kind
            row[place.offset : place.offset + kind.bytes] = np.array([place.field.born], kind.dtype).view(np.uint8)
        return row

    def carried(self, words: Any, old: Any) -> list[tuple[int, int, int]]:
        """What a new plan leaves as it is: (offset by ``words``, offset by ``old``, bytes), side by side as one."""
        spans: list[tuple[int, int, int]] = []
        for place, was in zip(
            (place for place in self.places(words) if place.carried),
            (place for place in self.places(old) if place.carried),
            strict=True,
        ):
            to, source, length = spans[-1] if spans else (-1, -1, 0)
            if (place.offset, was.offset) == (to + length, source + length):
                spans[-1] = to, source, length + place.field.kind.bytes
            else:
                spans.append((place.offset, was.offset, place.field.kind.bytes))
        return spans
