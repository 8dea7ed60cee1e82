"""Named lists and their times: which values stood in a list at which ingest time.

A list is a row of versions. Each holds from an instant of each stream's ingest clock, until the next one's; a value of
a version may end before. So which values a record is compared with is a fact of the record, as it is with rules.
Versions are kept as what changed, so that many of a large list take little room.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crossline.basics.conditions.tree import Literal, literal
from crossline.basics.errors import UsageError
from crossline.basics.times import BEGINNING_MS, FOREVER_MS

if TYPE_CHECKING:
    from crossline.basics.conditions.membership import Members, Spans

# A value, and the ingest time from which on it does not stand there any more.
Entry = tuple[Literal, int]
_Key = Literal | tuple[bool]


@dataclass(frozen=True, slots=True)
class ListChange:
    """What makes a version of a list out of the one before.

    ``begins``: by stream, the ingest time from which it holds; a stream that is not there: the beginning. ``put``:
    values that are new, or have no end any more. ``ending``: those that have another end. ``taken``: removed values.
    """

    begins: Mapping[str, int]
    put: tuple[Literal, ...] = ()
    ending: tuple[Entry, ...] = ()
    taken: tuple[Literal, ...] = ()

    def entries(self) -> dict[_Key, int]:
        """Values that come or have another end, with that."""
        return dict.fromkeys(map(_key, self.put), FOREVER_MS) | {
            _key(value): until_ms for value, until_ms in self.ending
        }


@dataclass(frozen=True)
class NamedList:
    """A list as it was and is. ``first`` is the number of the oldest version kept, which holds from the beginning."""

    first: int = 0
    changes: tuple[ListChange, ...] = ()
    _members: dict[str, Members] = field(default_factory=dict, compare=False, repr=False)

    def then(self, entries: Iterable[Entry], begins: Mapping[str, int]) -> NamedList:
        """The list with another version, of these ``entries``. A value that stands twice ends at the later time."""
        known, made = _newest(self.changes), dict[_Key, int]()
        for value, until_ms in entries:
            key = _key(value)
            made[key] = until_ms if key not in made else max(until_ms, made[key])
        fresh = made if not known else {key: ms for key, ms in made.items() if known.get(key) != ms}
        removed = tuple(_value(key) for key in known if key not in made)
        return NamedList(self.first, (*self.changes, _change(begins, fresh, removed)))

    def since(self, first: int) -> NamedList:
        """The list without the versions before number ``first``."""
        if first <= self.first:
            return self
        folded = first - self.first + 1
        return NamedList(first, (_change({}, _newest(self.changes[:folded])), *self.changes[folded:]))

    def members(self, stream: str) -> Members:
        """The values as records of ``stream`` are compared with them; made once."""
        from crossline.basics.conditions.membership import Members  # noqa: PLC0415 - only who judges needs Arrow

        if stream not in self._members:
            self._members[stream] = Members(*self.times(stream))
        return self._members[stream]

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of the values of its last version with their ends: the same however it came about."""
        return _digest(_newest(self.changes))

    def digests(self, stream: str) -> list[tuple[int, str]]:
        """Of each version the ingest time of ``stream`` from which it holds, and its digest."""
        starts = starts_ms([change.begins for change in self.changes], stream)
        return [(start_ms, _digest(_newest(self.changes[: number + 1]))) for number, start_ms in enumerate(starts)]

    def at(self, stream: str, ingest_ms: int) -> list[Literal]:
        """The values that a record of that ingest time is compared with."""
        steady, others = self.times(stream)
        return [*steady, *(value for value, spans in others if any(a <= ingest_ms < b for a, b in spans))]

    def times(self, stream: str) -> tuple[Sequence[Literal], Spans]:
        """The values that always stand there, and the others with the spans of ingest time in which they do."""
        if not self.changes:
            return [], []
        first, *later = self.changes
        touched = {key for change in later for key in (*map(_key, change.taken), *change.entries())}
        steady = [value for value in first.put if _key(value) not in touched] if touched else first.put
        starts = starts_ms([change.begins for change in self.changes], stream)
        standing = {_key(value): (BEGINNING_MS, until_ms) for value, until_ms in first.ending}
        standing |= (
            {key: (BEGINNING_MS, FOREVER_MS) for key in map(_key, first.put) if key in touched} if touched else {}
        )
        spans: dict[_Key, list[tuple[int, int]]] = {}
        for change, start_ms in zip(later, starts[1:], strict=True):
            _close(standing, spans, map(_key, change.taken), start_ms)
            for key, until_ms in change.entries().items():
                _close(standing, spans, [key] if key in standing else [], start_ms)
                standing[key] = (start_ms, until_ms)
        _close(standing, spans, list(standing), FOREVER_MS)
        return steady, [(_value(key), mine) for key, mine in spans.items() if mine]

    def to_json(self) -> dict[str, Any]:
        """As JSON values, to be read by ``list_from_json``."""
        names = ("begins", "put", "ending", "taken")
        return {
            "first": self.first,
            "changes": [{name: getattr(change, name) for name in names} for change in self.changes],
        }


Lists = Mapping[str, NamedList]


def list_from_json(data: Any) -> NamedList:
    """Inverse of ``NamedList.to_json``; reads plain values too, which are what older plan snapshots have."""
    if isinstance(data, list):
        return named_list(data)
    changes = [
        ListChange(
            each["begins"],
            tuple(each["put"]),
            tuple((value, until_ms) for value, until_ms in each["ending"]),
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
    """Lists of plain values by name, from the beginning on. Raises UsageError where one is no list of values."""
    if values is not None and not isinstance(values, Mapping):
        raise UsageError(f"lists: found {type(values).__name__}; expected a dict of a list's name and its values")
    for name, each in (values or {}).items():
        if isinstance(each, str | bytes) or not isinstance(each, Iterable):
            raise UsageError(f"lists: {name}: found {each!r:.60}; expected several values: put one into a list")
    return {name: named_list(each) for name, each in (values or {}).items()}


def starts_ms(begins: Sequence[Mapping[str, int]], stream: str) -> list[int]:
    """The ingest time of ``stream`` from which each version holds, until the next one's: equal for one that never does.

    Of a version that begins after a later one, nothing is left from the later one's instant on.
    """
    starts = [each.get(stream, BEGINNING_MS) for each in begins]
    for number in reversed(range(len(starts) - 1)):
        starts[number] = min(starts[number], starts[number + 1])
    return [BEGINNING_MS, *starts[1:]] if starts else []


def _change(begins: Mapping[str, int], entries: Mapping[_Key, int], removed: tuple[Literal, ...] = ()) -> ListChange:
    put = tuple(_value(key) for key, until_ms in entries.items() if until_ms == FOREVER_MS)
    ending = tuple((_value(key), until_ms) for key, until_ms in entries.items() if until_ms != FOREVER_MS)
    return ListChange(dict(begins), put, ending, removed)


def _newest(changes: Iterable[ListChange]) -> dict[_Key, int]:
    """The values of the last version, with their ends."""
    entries: dict[_Key, int] = {}
    for change in changes:
        for value in change.taken:
            del entries[_key(value)]
        entries.update(change.entries())
    return entries


def _digest(entries: Mapping[_Key, int]) -> str:
    lines = sorted((type(_value(key)).__name__, str(_value(key)), until_ms) for key, until_ms in entries.items())
    return hashlib.sha256(json.dumps(lines, separators=(",", ":")).encode()).hexdigest()


def _close(
    standing: dict[_Key, tuple[int, int]],
    spans: dict[_Key, list[tuple[int, int]]],
    keys: Iterable[_Key],
    now_ms: int,
) -> None:
    """Values that stood there up to ``now_ms``, or to their end; spans that join become one."""
    for key in keys:
        from_ms, until_ms = standing.pop(key)
        end_ms, mine = min(until_ms, now_ms), spans.setdefault(key, [])
        if from_ms < end_ms:
            joins = mine and mine[-1][1] == from_ms
            mine.append((mine.pop()[0] if joins else from_ms, end_ms))


def _key(value: Literal) -> _Key:
    """True is not 1."""
    return (value,) if isinstance(value, bool) else value


def _value(key: _Key) -> Literal:
    return key[0] if isinstance(key, tuple) else key
