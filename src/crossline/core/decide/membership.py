"""Whether one value stands in a list at an ingest time, at the cost of a look into a table: lists may be large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossline.core.conditions.lists import NamedList
from crossline.core.conditions.tree import Family, Literal, family

_Key = tuple[Family, Literal]
_KEPT_MAX = 64  # versions of lists: those of a policy are few, and each change makes a new one


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
    """Indexes of lists as records of ``stream`` are compared with them, each made once. From any thread."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._kept: dict[int, tuple[NamedList, Index]] = {}

    def of(self, named: NamedList) -> Index:
        """The index of ``named``, which does not change: a list that does is another one."""
        known = self._kept.get(id(named))
        if known is not None:  # it keeps the list alive, so that no other can have its id
            return known[1]
        steady, others = named.times(self._stream)
        index = Index(
            frozenset((family(each), each) for each in steady),
            {(family(value), value): tuple(spans) for value, spans in others},
        )
        for oldest in list(self._kept)[: 1 - _KEPT_MAX]:
            self._kept.pop(oldest, None)  # somebody else may do so too
        self._kept[id(named)] = (named, index)
        return index
