"""Records by where they stand: those of a stretch of a log are found without a look at the others."""

from __future__ import annotations

from bisect import bisect_left, insort

from crossline.serve.decisions.values import LogPosition


class PositionIndex:
    """Records, each by stream, log and place in it.

    Example:
        >>> places = Places()
        >>> places.add("payments", "t1", Place("payments-0", 7))
        >>> places.at("payments", "payments-0", 5, 10)
        ['t1']
    """

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], list[tuple[int, str]]] = {}  # most come in order: behind all others

    def add(self, stream: str, record_id: str, place: LogPosition) -> None:
        """The record stands there."""
        insort(self._of.setdefault((stream, place.log), []), (place.at, record_id))

    def drop(self, stream: str, record_id: str, place: LogPosition) -> None:
        """Forget it, if it is known to stand there."""
        mine = self._of.get((stream, place.log), [])
        found = bisect_left(mine, (place.at, record_id))
        if found < len(mine) and mine[found] == (place.at, record_id):
            del mine[found]
            self._tidy(stream, place.log)

    def at(self, stream: str, log: str, begin: int, end: int) -> list[str]:
        """The ids of those from ``begin`` up to ``end``, without it, in their order."""
        mine = self._of.get((stream, log), [])
        return [record_id for _, record_id in mine[bisect_left(mine, (begin, "")) : bisect_left(mine, (end, ""))]]

    def take(self, stream: str, log: str, begin: int, end: int) -> list[tuple[LogPosition, str]]:
        """The same with their places; they are forgotten."""
        mine = self._of.get((stream, log), [])
        first, last = bisect_left(mine, (begin, "")), bisect_left(mine, (end, ""))
        found = mine[first:last]
        del mine[first:last]
        self._tidy(stream, log)
        return [(LogPosition(log, at), record_id) for at, record_id in found]

    def first(self, stream: str, log: str) -> LogPosition | None:
        """Where the first of a log stands; None if there is none."""
        mine = self._of.get((stream, log))
        return LogPosition(log, mine[0][0]) if mine else None

    def logs(self) -> list[tuple[str, str]]:
        """Streams and logs that have any."""
        return list(self._of)

    def _tidy(self, stream: str, log: str) -> None:
        if not self._of.get((stream, log), True):
            del self._of[stream, log]
