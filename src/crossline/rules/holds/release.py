"""Releases: instants of the ingest clock from which alerts of before hold a key no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

Key = tuple[tuple[str, str], ...]


def release_key(fields: Mapping[str, Any]) -> Key:
    """A key as releases name it: each value as text, in the order of the fields' names."""
    return tuple(sorted((name, _text(value)) for name, value in fields.items()))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


@dataclass(frozen=True, slots=True)
class Release:
    """Records with an ingest time of ``from_ms`` or later are not held by alerts of ``rule_id`` that came before."""

    rule_id: str
    key: Key
    from_ms: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"released": self.rule_id, "key": dict(self.key), "from_ms": self.from_ms}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Release:
        """Inverse of ``to_json``."""
        return cls(body["released"], release_key(body["key"]), body["from_ms"])


class Releases:
    """Many of them, looked up at each record that is held."""

    def __init__(self, releases: Iterable[Release]) -> None:
        self._from_ms: dict[tuple[str, Key], list[int]] = {}
        for each in releases:
            self._from_ms.setdefault((each.rule_id, each.key), []).append(each.from_ms)

    def last_ms(self, rule_id: str, fields: Mapping[str, Any], ingest_ms: int) -> int | None:
        """The last release of the key before a record that came at ``ingest_ms``; None where there is none."""
        if not self._from_ms:
            return None
        mine = self._from_ms.get((rule_id, release_key(fields)), ())
        return max((from_ms for from_ms in mine if from_ms <= ingest_ms), default=None)
