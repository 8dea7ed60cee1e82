"""Named lists and their times: which values stood in a list at which ingest time.

A list is a row of versions. Each holds from an instant of each stream's ingest clock, until the next one's; a value of
a version may end before. So which values a record is compared with is a fact of the record, as it is with rules.
Versions are kept as what changed, so that many of a large list take little room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossline.core.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.core.conditions.members import Members, Spans
from crossline.core.conditions.tree import Literal, literal

# A value, and the ingest time from which on it does not stand there any more.
Entry = tuple[Literal, int]
_Key = Literal | tuple[bool]


@dataclass(frozen=True, slots=True)
class ListChange:
    """What makes a version of a list out of the one before.

    ``begins``: by stream, the ingest time from which it holds; a stream that is not there: the beginning. ``put``:
    entries that are new, or end at another time. ``taken``: values that are gone.
    """

    begins: Mapping[str, int]
    put: tuple[Entry, ...]
    taken: tuple[Literal, ...] = ()


@dataclass(frozen=True)
class NamedList:
    """A list as it was and is. ``first`` is the number of the oldest version kept, which holds from the beginning."""

    first: int = 0
    changes: tuple[ListChange, ...] = ()
    _members: dict[str, Members] = field(default_factory=dict, compare=False, repr=False)

    def then(self, entries: Iterable[Entry], begins: Mapping[str, int]) -> NamedList:
        """The list with another version, of these ``entries``. A value that stands twice ends at the later time."""
        known, made = _newest(self.changes), dict[_Key, Entry]()
        for value, until_ms in entries:
            there = made.get(_key(value))
            made[_key(value)] = (value, until_ms if there is None else max(until_ms, there[1]))
        put = tuple(entry for key, entry in made.items() if known.get(key) != entry)
        taken = tuple(value for key, (value, _) in known.items() if key not in made)
        return NamedList(self.first, (*self.changes, ListChange(dict(begins), put, taken)))

    def since(self, first: int) -> NamedList:
        """The list without the versions before number ``first``."""
        if first <= self.first:
            return self
        folded = first - self.first + 1
        entries = tuple(_newest(self.changes[:folded]).values())
        return NamedList(first, (ListChange({}, entries), *self.changes[folded:]))

    def members(self, stream: str) -> Members:
        """The values as records of ``stream`` are compared with them; made once."""
        if stream not in self._members:
            self._members[stream] = Members(self._spans(stream))
        return self._members[stream]

    def at(self, stream: str, ingest_ms: int) -> list[Literal]:
        """The values that a record of that ingest time is compared with."""
        return [value for value, spans in self._spans(stream) if any(a <= ingest_ms < b for a, b in spans)]

    def _spans(self, stream: str) -> Spans:
        """Each value there ever was, with the spans of ingest time in which it stands there."""
        starts = starts_ms([change.begins for change in self.changes], stream)
        standing: dict[_Key, tuple[int, int]] = {}  # since when, until when at most
        spans: dict[_Key, list[tuple[int, int]]] = {}
        values: dict[_Key, Literal] = {}

        def close(key: _Key, now_ms: int) -> None:
            from_ms, until_ms = standing.pop(key)
            end_ms, mine = min(until_ms, now_ms), spans.setdefault(key, [])
            if from_ms < end_ms:
                joins = mine and mine[-1][1] == from_ms
                mine.append((mine.pop()[0] if joins else from_ms, end_ms))

        for change, start_ms in zip(self.changes, starts, strict=True):
            for value in change.taken:
                close(_key(value), start_ms)
            for value, until_ms in change.put:
                key = _key(value)
                if key in standing:
                    close(key, start_ms)
                values[key], standing[key] = value, (start_ms, until_ms)
        for key in list(standing):
            close(key, FOREVER_MS)
        return [(value, spans[key]) for key, value in values.items() if spans[key]]

    def to_json(self) -> dict[str, Any]:
        """As JSON values, to be read by ``list_from_json``."""
        return {
            "first": self.first,
            "changes": [
                {
                    "begins": change.begins,
                    "put": [value for value, until_ms in change.put if until_ms == FOREVER_MS],
                    "until": [entry for entry in change.put if entry[1] != FOREVER_MS],
                    "taken": change.taken,
                }
                for change in self.changes
            ],
        }


Lists = Mapping[str, NamedList]


def list_from_json(data: Any) -> NamedList:
    """Inverse of ``NamedList.to_json``; reads plain values too, which are what older books have."""
    if isinstance(data, list):
        return named_list(data)
    changes = [
        ListChange(
            each["begins"],
            (*((value, FOREVER_MS) for value in each["put"]), *((value, ms) for value, ms in each["until"])),
            tuple(each["taken"]),
        )
        for each in data["changes"]
    ]
    return NamedList(data["first"], tuple(changes))


def named_list(values: Iterable[Any]) -> NamedList:
    """A list of these values, from the beginning on. What no field can have is left out."""
    known = [value for value in map(literal, values) if value is not None]
    return NamedList().then([(value, FOREVER_MS) for value in known], {})


def named_lists(values: Mapping[str, Iterable[Any]] | None) -> Lists:
    """Lists of plain values by name, from the beginning on."""
    return {name: named_list(each) for name, each in (values or {}).items()}


def starts_ms(begins: Sequence[Mapping[str, int]], stream: str) -> list[int]:
    """The ingest time of ``stream`` from which each version holds, until the next one's: equal for one that never does.

    Of a version that begins after a later one, nothing is left from the later one's instant on.
    """
    starts = [each.get(stream, BEGINNING_MS) for each in begins]
    for number in reversed(range(len(starts) - 1)):
        starts[number] = min(starts[number], starts[number + 1])
    return [BEGINNING_MS, *starts[1:]] if starts else []


def _newest(changes: Iterable[ListChange]) -> dict[_Key, Entry]:
    """The entries of the last version."""
    entries: dict[_Key, Entry] = {}
    for change in changes:
        for value in change.taken:
            del entries[_key(value)]
        entries.update((_key(entry[0]), entry) for entry in change.put)
    return entries


def _key(value: Literal) -> _Key:
    """True is not 1."""
    return (value,) if isinstance(value, bool) else value
