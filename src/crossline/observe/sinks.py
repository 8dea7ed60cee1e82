"""Names of sinks for monitoring, and a watch that passes figures on to several watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import Delivery, Sink, SinkWatch


def named(sinks: Iterable[Sink]) -> Iterator[tuple[str, Sink]]:
    """Each with its name: its kind, a later one of a kind with its number."""
    kinds: Counter[str] = Counter()
    for sink in sinks:
        kind = (sink.name if isinstance(sink, OutboxSink) else type(sink).__name__).removesuffix("Sink").lower()
        kinds[kind] += 1
        yield (kind if kinds[kind] == 1 else f"{kind}-{kinds[kind]}"), sink


class SinkWatches:
    """Passes everything on to all of ``watches``."""

    def __init__(self, watches: Sequence[SinkWatch]) -> None:
        self._watches = watches

    def failed(self, sink: Sink, error: BaseException | None) -> None:
        """A sink did not take a batch."""
        for each in self._watches:
            each.failed(sink, error)

    def on_delivered(self, sink: Sink, delivery: Delivery, spent_s: float) -> None:
        """A sink has a batch."""
        for each in self._watches:
            each.on_delivered(sink, delivery, spent_s)
