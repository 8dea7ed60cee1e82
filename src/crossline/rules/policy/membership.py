"""Whether one value stands in a list at an ingest time, at the cost of a look into a table: lists may be large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossline.basics.conditions.lists import NamedList
from crossline.basics.conditions.tree import Family, Literal, family

_Key = tuple[Family, Literal]


@dataclass(frozen=True, slots=True)
class Index:
    """``steady``: values that always stand there; ``spans``: of the others the ingest times [from, until)."""

    steady: frozenset[_Key]
    spans: Mapping[_Key, Sequence[tuple[int, int]]]

    def holds(self, value: Any, ingest_ms: int) -> bool:
        """Whether ``value`` stands there at ``ingest_ms``; what is missing or no plain value does not."""
        if not isinstance(value, str | int | float):
            return False
        key = (family(value), value)
        return key in self.steady or any(start <= ingest_ms < end for start, end in self.spans.get(key, ()))


class Membership:
    """Indexes of lists as records of ``stream`` are compared with them, one of each name. From any thread."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._kept: dict[str, tuple[NamedList, Index]] = {}

    def of(self, name: str, named: NamedList) -> Index:
        """The index of ``named``, the list of that name: made anew where it is another object than the last time."""
        known = self._kept.get(name)
        if known is not None and known[0] is named:
            return known[1]
        steady, others = named.times(self._stream)
        index = Index(
            frozenset((family(each), each) for each in steady),
            {(family(value), value): tuple(spans) for value, spans in others},
        )
        self._kept[name] = (named, index)
        return index
