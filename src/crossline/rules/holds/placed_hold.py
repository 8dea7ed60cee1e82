"""What people hold, as values: which key takes which action, of which streams, since when and until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from crossline.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.rules.holds.release import Key, release_key

BY_HAND = "hold:"  # begins the id of a reason that is a hold without a rule; no rule of a file has such an id


@dataclass(frozen=True, slots=True)
class PlacedHold:
    """Records with ``key`` take ``action`` where they came from an instant on, and before ``until_ms``.

    ``begins``: by stream, that instant on its ingest clock. ``ended``: by stream, where it was released. ``rule_id``:
    the rule whose alerts would hold so; None: no rule's. ``who`` placed it.
    """

    hold_id: str
    key: Key
    action: str
    who: str
    until_ms: int
    begins: tuple[tuple[str, int], ...]
    ended: tuple[tuple[str, int], ...] = ()
    rule_id: str | None = None
    rule_version: int = 1
    score: int = 0
    severity: str = "medium"
    tags: tuple[str, ...] = ()

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields of its key."""
        return tuple(name for name, _ in self.key)

    def span_ms(self, stream: str) -> tuple[int, int]:
        """From when on, and until when, it holds records of ``stream``, on the ingest clock; empty where not."""
        begins, ended = dict(self.begins), dict(self.ended)
        if stream not in begins:
            return 0, 0
        return begins[stream], min(self.until_ms, ended.get(stream, FOREVER_MS))

    def stands(self, stream: str, ingest_ms: int) -> bool:
        """Whether it holds a record of its key that came at ``ingest_ms``."""
        from_ms, until_ms = self.span_ms(stream)
        return from_ms <= ingest_ms < until_ms

    def outlived(self, gone_ms: Mapping[str, int]) -> bool:
        """Whether no record to come is held; ``gone_ms``: by stream, the ingest time that none of them is before."""
        spans = ((stream, *self.span_ms(stream)) for stream, _ in self.begins)
        return all(
            from_ms >= end_ms or end_ms <= gone_ms.get(stream, BEGINNING_MS) for stream, from_ms, end_ms in spans
        )

    def released(self, from_ms: Mapping[str, int]) -> PlacedHold:
        """The same until it was released: by stream, the first instant at which it holds no more."""
        known = dict(self.ended)
        ended = {stream: min(ms, known.get(stream, ms)) for stream, ms in from_ms.items()}
        return replace(self, ended=tuple({**known, **ended}.items()))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        given = {name: getattr(self, name) for name in _PLAIN}
        return {"placed": self.hold_id, "key": dict(self.key), "begins": dict(self.begins), **given} | {
            "ended": dict(self.ended),
            "tags": list(self.tags),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> PlacedHold:
        """Inverse of ``to_json``."""
        given: dict[str, Any] = {name: body[name] for name in _PLAIN}
        times: dict[str, Any] = {name: tuple(body[name].items()) for name in ("begins", "ended")}
        return cls(body["placed"], release_key(body["key"]), tags=tuple(body["tags"]), **given, **times)


_PLAIN = ("action", "who", "until_ms", "rule_id", "rule_version", "score", "severity")


class PlacedHolds:
    """Many of them, looked up at each record whose key is held."""

    def __init__(self, placed: Iterable[PlacedHold]) -> None:
        self._by_key: dict[Key, list[PlacedHold]] = {}
        for each in placed:
            self._by_key.setdefault(each.key, []).append(each)

    def at(self, stream: str, fields: Mapping[str, Any], ingest_ms: int) -> list[PlacedHold]:
        """Those that hold a record of ``stream`` with the key ``fields`` that came at ``ingest_ms``."""
        mine = self._by_key.get(release_key(fields), ())
        return [each for each in mine if each.stands(stream, ingest_ms)]
