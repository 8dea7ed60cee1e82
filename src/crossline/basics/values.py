"""Values that every part of crossline passes around: arrays and decoded records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]

T = TypeVar("T")


class TextPlaces(NamedTuple):
    """Texts where they stand in ``data``: int64[n], each its start times 2^32 and its size; negative: there is none."""

    data: U8
    places: I64


@dataclass(frozen=True, slots=True)
class Columns(Mapping[str, pa.Array]):
    """Columns by name, each made by ``make(its number)`` when it is asked for, and kept.

    ``places(its number)``: where the texts of a column stand before it is made, None where they do not.
    """

    names: tuple[str, ...]
    make: Callable[[int], pa.Array]
    places: Callable[[int], TextPlaces | None] = lambda _: None
    made: dict[str, pa.Array] = field(default_factory=dict)

    def __getitem__(self, name: str) -> pa.Array:
        found = self.made.get(name)
        if found is None:
            if name not in self.names:
                raise KeyError(name)
            found = self.made[name] = self.make(self.names.index(name))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Records:
    """n decoded records of one stream, from one partition, in offset order, as columns.

    ``ids``: string array, no nulls. ``event_ms``: int64[n]. ``ingest_ms``: int64[n], or None when ingest time is the
    running maximum of event time (resolved where the log is seen whole). ``offsets``: int64[n], strictly increasing
    in ``partition`` (but for ``spans``). ``fields``: dotted field name -> array of length n (string, int64, float64,
    bool; a timestamp is int64 epoch ms; list fields pa.list_); made on demand, as most are never read.
    ``reached_ms``: int64[n], the highest ingest time of the log up to each, where these are not all of its records.

    ``spans``: a record whose fields depend on an ingest time that is not known yet stands here once for each of the
    forms that it may have, one after the other: in the form of row i where its ingest time is at or after
    ``spans[0][i]`` and before ``spans[1][i]``. ``missed``: uint8[n, bytes], bit t where table number t has no row.

    ``running_ms``: what ingest time is the running maximum of, where that is not ``event_ms``.

    ``marks``: by name, arrays of n numbers that go with the records to where they are judged.
    """

    stream: str
    partition: str
    ids: pa.Array
    event_ms: I64
    ingest_ms: I64 | None
    offsets: I64
    fields: Mapping[str, pa.Array] = field(default_factory=dict)
    reached_ms: I64 | None = None
    marks: Mapping[str, I64] = field(default_factory=dict)
    spans: tuple[I64, I64] | None = None
    missed: U8 | None = None
    running_ms: I64 | None = None
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.event_ms)

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` makes of the records, made once: several state stores have the same keys, or fields of them."""
        if what not in self._made:
            self._made[what] = make()
        made: T = self._made[what]
        return made
