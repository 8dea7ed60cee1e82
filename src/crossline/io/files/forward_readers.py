"""A pool of open sequential readers, so that the next chunk of a file continues where the last one ended."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

OPEN_MAX = 4


class ForwardReader(Protocol):
    """A sequential reader; ``at``: the next position."""

    at: int

    @property
    def ended(self) -> bool:
        """Whether all of it was read."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


T = TypeVar("T", bound=ForwardReader)


class ForwardReaders(Generic[T]):
    """Idle readers by file, OPEN_MAX at most. A reader in use is not in the pool, so no two threads share one."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], T] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, key: tuple[Any, ...], start: int) -> T | None:
        """The reader of a file, if it is not past ``start``."""
        reader = self._kept.pop(key, None)
        if reader is not None and reader.at > start:
            reader.close()
            return None
        return reader

    def keep(self, key: tuple[Any, ...], reader: T) -> None:
        """Return a reader. Closes a reader at its end, and the least recently used one beyond OPEN_MAX."""
        if reader.ended:
            reader.close()
            return
        self._kept[key] = reader
        if len(self._kept) > OPEN_MAX:
            self._kept.pop(next(iter(self._kept))).close()

    def clear(self) -> None:
        """Close all."""
        while self._kept:
            self._kept.popitem()[1].close()
