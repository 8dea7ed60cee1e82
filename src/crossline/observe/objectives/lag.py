"""How old the oldest record is that waits: an upper bound of it, from what a pipeline knows anyway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crossline.runtime.pipeline.pipeline_status import SourceBacklog


class LagMeter:
    """Looks at streams whose ingest time is a broker's clock.

    All that came in before ``t`` is judged, where ``t`` is the highest ingest time that was judged, or an instant at
    which nothing waited. So what waits now is younger than the later of the two. Before both, it is the time since
    the run began: what waits is at least that old.
    """

    def __init__(self, streams: Iterable[str], began_ms: int) -> None:
        self._streams = frozenset(streams)
        self._empty_ms = dict.fromkeys(self._streams, began_ms)

    def of(self, waiting: Iterable[SourceBacklog], ingest_ms: Mapping[str, int], now_ms: int) -> int | None:
        """Of the stream that is furthest behind, in ms; None where a broker does not say what waits.

        Args:
            waiting: What waits behind the last batch that is done.
            ingest_ms: By stream, the highest ingest time that was judged.
            now_ms: When that was asked.
        """
        found: list[int] = []
        for each in waiting:
            if each.stream not in self._streams:
                continue
            if each.amount is None:
                return None
            if not each.amount:
                self._empty_ms[each.stream] = now_ms
            judged_ms = max(self._empty_ms[each.stream], ingest_ms.get(each.stream, 0))
            found.append(max(0, now_ms - judged_ms))
        return max(found, default=None)
