"""Keys of a Redis sink: alerts, the status of entities, decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis import RedisError

from crossline.basics.errors import RetryableError
from crossline.erasure.place import Counts
from crossline.erasure.rows import GONE, decoded, treat
from crossline.erasure.subject import Subject, dumped, parsed
from crossline.io.redis.keys import part

_OF_ENTITY = ("entity:", "standing:", "figure:")
_DECISION, _ALERT, _ALERTS, _DUE = "decision:", "alert:", "alerts", "due"
_PART = 500


@dataclass(slots=True)
class RedisPlace:
    """All keys below a prefix. Other programs may read meanwhile: each key is changed by one command.

    Attributes:
        client: Connected to the server.
        prefix: The sink's prefix.
        name: The place's name.
    """

    client: Any  # redis.Redis, whose types do not say that answers are bytes
    prefix: str
    name: str = "Redis sink"
    needs_stop: bool = False

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        return self._reported(subject, change=False)

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``."""
        return self._reported(subject, change=True)

    def _reported(self, subject: Subject, *, change: bool) -> Counts:
        try:
            return self._each(subject, change=change)
        except RedisError as error:
            raise RetryableError(f"Redis takes nothing now: {error}; run the erasure again") from error

    def _each(self, subject: Subject, *, change: bool) -> Counts:
        total = Counts()
        pattern = "".join(f"\\{each}" if each in "*?[]^-\\" else each for each in self.prefix)
        for raw in self.client.scan_iter(match=f"{pattern}:*", count=_PART):
            key = (raw.decode() if isinstance(raw, bytes) else str(raw)).removeprefix(f"{self.prefix}:")
            total += self._key(subject, key, change=change)
        return total

    def _key(self, subject: Subject, key: str, *, change: bool) -> Counts:
        name = f"{self.prefix}:{key}"
        if key.startswith(_OF_ENTITY):
            gone = _names(subject, key.rpartition(":")[2])
        elif key.startswith(_DECISION):
            stream, _, record_id = key.removeprefix(_DECISION).partition(":")
            gone = any(part(each) == record_id for one in (stream, "") for each in subject.ids.get(one, ()))
        elif key == _ALERTS:
            return self._stream(subject, name, change=change)
        elif key == _DUE:
            return self._due(subject, name, change=change)
        else:
            gone = False
        if not gone and key.startswith((_DECISION, _ALERT)):
            return self._json(subject, name, change=change)
        if gone and change:
            self.client.delete(name)
        return Counts(gone=1) if gone else Counts(kept=1)

    def _json(self, subject: Subject, name: str, *, change: bool) -> Counts:
        text = decoded(self.client.get(name) or b"")
        row = parsed(text or "")
        after = treat(subject, row) if isinstance(row, dict) else row
        if after is row:
            return Counts(kept=1)
        if change:
            if after is GONE:
                self.client.delete(name)
            else:
                self.client.set(name, dumped(after), keepttl=True)
        return Counts(gone=1) if after is GONE else Counts(changed=1)

    def _stream(self, subject: Subject, name: str, *, change: bool) -> Counts:
        """An entry of a stream cannot be changed: one that mentions the person goes as well."""
        gone = kept = 0
        start: Any = "-"
        while entries := list(self.client.xrange(name, min=start, count=_PART)):
            for number, fields in entries:
                row = parsed(decoded(fields.get(b"alert", b"")) or "")
                if isinstance(row, dict) and treat(subject, row) is not row:
                    gone += 1
                    if change:
                        self.client.xdel(name, number)
                else:
                    kept += 1
            start = b"(" + entries[-1][0]
        return Counts(gone=gone, kept=kept)

    def _due(self, subject: Subject, name: str, *, change: bool) -> Counts:
        gone = [each for each, _ in self.client.zscan_iter(name) if _names(subject, each.decode())]
        if gone and change:
            self.client.zrem(name, *gone)
        return Counts(gone=len(gone))


def _names(subject: Subject, entity: str) -> bool:
    """Whether the name of an entity, ``field=value`` joined by commas, has a value of the person."""
    parts = entity.split(",")
    return any(f"{part(key.field)}={part(key.value)}" in parts for key in subject.keys)
