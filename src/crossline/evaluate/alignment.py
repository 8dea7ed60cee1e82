"""Streams of the past, judged up to the same ingest instants whatever of each was read first.

Rules that read several streams see the records of all in ingest order. A stream that keeps up reads all of them up to
the same instants. Files of the past are read as they come, so what was read further than the slowest stream waits here,
in each shard, until that one has come as far. Every shard sees the clock of every chunk, so all release the same
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from crossline.basics.values import I64
from crossline.basics.wire import WirePart
from crossline.evaluate.ingest_order import chunk_floors, settled, take_rows
from crossline.plan.compile import StreamPlan

_ENDED = 2**62


@dataclass(slots=True)
class AlignmentBuffer:
    """What a shard has not judged yet; ``clocks``: by stream, how far each of its logs was read."""

    streams: Sequence[str]
    clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    parts: list[WirePart] = field(default_factory=list)

    def release(self, plans: Iterable[StreamPlan], parts: Sequence[WirePart]) -> list[WirePart]:
        """The parts, new and buffered, that no record still to be read can precede."""
        by_name = {plan.stream: plan for plan in plans}
        floors: dict[str, dict[tuple[str, int], int]] = {}
        for stream in self.streams:
            plan = by_name[stream]
            accounting_store = plan.state_stores[plan.accounting_store].state_store.name
            chunks = [part for part in parts if part[0]["state_store"] == accounting_store]
            floors[stream] = chunk_floors(chunks, self.clocks.setdefault(stream, {}))
            if any(meta.get("last") for meta, _ in chunks):
                self.ended.add(stream)
        for part in parts:
            plan, log = by_name[part[0]["stream"]], part[0]["log"]
            # On another clock of its stream a record waits as it does in the stream's own plan.
            name = plan.stream if plan.clock is None else plan.base
            stream, own = (name, log) if plan.met is None else plan.met.origin(log)
            self.parts.append(_resolved(part, floors[stream][own, part[0]["sequence"]]))
        return self._before(min(self._clock_ms(stream) for stream in self.streams))

    def _clock_ms(self, stream: str) -> int:
        if stream in self.ended:
            return _ENDED
        return max(self.clocks[stream].values(), default=-_ENDED)

    def _before(self, until_ms: int) -> list[WirePart]:
        """What has an ingest time before ``until_ms``; the rest stays."""
        ready: list[WirePart] = []
        kept: list[WirePart] = []
        for meta, arrays in self.parts:
            clock_ms = meta["clock_ms"]
            if clock_ms is None or clock_ms < until_ms:
                ready.append((meta, arrays))
                continue
            here: I64 = arrays["reached_ms"]
            first = int(np.searchsorted(here, until_ms))
            kept.append((meta, take_rows(arrays, np.arange(first, len(here)))))
            ready.append(({**meta, "clock_ms": until_ms - 1, "last": False}, take_rows(arrays, np.arange(first))))
        self.parts = kept
        return ready


def _resolved(part: WirePart, floor_ms: int) -> WirePart:
    """``part`` with the ingest times that its records have, and its bits as they are then."""
    meta, arrays = settled(part, {(part[0]["log"], part[0]["sequence"]): floor_ms})
    clock = np.maximum(arrays["clock_ms"], floor_ms) if meta["running"] else arrays["clock_ms"]
    reached = np.maximum(arrays.get("reached_ms", clock), floor_ms)
    end_ms = None if meta["clock_ms"] is None else max(meta["clock_ms"], floor_ms)
    return {**meta, "running": False, "clock_ms": end_ms}, {**arrays, "clock_ms": clock, "reached_ms": reached}
