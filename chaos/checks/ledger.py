"""Counts expected and found names: millions of names, 64 bits each, and a digest of the contents of each.

Among five million names a collision of two occurs less than once in a million counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import xxhash

U64 = npt.NDArray[np.uint64]
T = TypeVar("T")

EXAMPLES = 3
CHUNK = 20_000
# A name, and the digest of what stands there; 0 where only the name counts.
Entry = tuple[str, int]


@dataclass(slots=True)
class Finding:
    """What was compared with what: how many there were to be, and what was wrong."""

    sink: str
    what: str
    expected: int
    found: int = 0
    lost: int = 0
    doubled: int = 0
    strange: int = 0
    other: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether all is there, each once, and as it must be."""
        return not (self.lost or self.doubled or self.strange or self.other)

    def note(self, title: str, name: str) -> None:
        """An example, unless there are enough."""
        if sum(each.startswith(title) for each in self.examples) < EXAMPLES:
            self.examples.append(f"{title}: {name}")


@dataclass(frozen=True, slots=True)
class Ledger:
    """Names that must be there, each once. ``names`` gives them again, for examples."""

    keys: U64
    digests: U64
    names: Callable[[], Iterable[str]]

    @classmethod
    def of(cls, entries: Iterable[Entry], names: Callable[[], Iterable[str]]) -> Ledger:
        """Raises RuntimeError where a name comes twice."""
        parts = [_hashed(chunk) for chunk in chunked(entries, CHUNK)]
        keys = np.concatenate([np.empty(0, np.uint64), *(part[0] for part in parts)])
        digests = np.concatenate([np.empty(0, np.uint64), *(part[1] for part in parts)])
        order = np.argsort(keys)
        keys = keys[order]
        if len(keys) and bool((keys[1:] == keys[:-1]).any()):
            raise RuntimeError("what is expected has a name twice")
        return cls(keys, digests[order], names)

    @classmethod
    def named(cls, names: Callable[[], Iterable[str]]) -> Ledger:
        """Of names alone."""
        return cls.of(((name, 0) for name in names()), names)

    def __len__(self) -> int:
        return len(self.keys)

    def compare(
        self, sink: str, what: str, found: Iterable[Entry], differs: Callable[[int], object] | None = None
    ) -> Finding:
        """What is lost, comes twice, is not expected, or has another digest.

        Found names are processed in lists of CHUNK; ``differs`` gets the places in the newest list with another digest.
        """
        finding = Finding(sink, what, len(self))
        times = np.zeros(len(self), np.uint32)
        for chunk in chunked(found, CHUNK):
            for number in self._take(chunk, times, finding):
                if differs is not None:
                    differs(number)
        lost = times == 0
        finding.lost = int(lost.sum())
        if finding.lost:
            wanted = set(map(int, self.keys[lost][:10_000]))
            for name in self.names():
                if key_of(name) in wanted:
                    finding.note("lost", name)
        return finding

    def _take(self, chunk: list[Entry], times: npt.NDArray[np.uint32], finding: Finding) -> list[int]:
        keys, digests = _hashed(chunk)
        finding.found += len(chunk)
        at = np.searchsorted(self.keys, keys)
        at[at == len(self)] = 0
        known = self.keys[at] == keys if len(self) else np.zeros(len(chunk), bool)
        for number in np.flatnonzero(~known):
            finding.strange += 1
            finding.note("strange", chunk[number][0])
        others = np.flatnonzero(known & (digests != self.digests[at])).tolist() if len(self) else []
        finding.other += len(others)
        places = at[known]
        before = times[places]
        np.add.at(times, places, 1)
        # Of a name that comes twice in the chunk the second one counts, too.
        _, first = np.unique(places, return_index=True)
        again = np.ones(len(places), bool)
        again[first] = before[first] > 0
        for number in np.flatnonzero(known)[again]:
            finding.doubled += 1
            finding.note("doubled", chunk[number][0])
        return others


def _hashed(chunk: list[Entry]) -> tuple[U64, U64]:
    keys = np.fromiter((key_of(name) for name, _ in chunk), np.uint64, len(chunk))
    return keys, np.fromiter((digest for _, digest in chunk), np.uint64, len(chunk))


def key_of(name: str) -> int:
    """The bits of a name."""
    return xxhash.xxh3_64_intdigest(name.encode())


def chunked(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """In lists of that size."""
    rest: Any = iter(items)
    while found := list(islice(rest, size)):
        yield found
