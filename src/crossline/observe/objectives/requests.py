"""Request counts of an API: answers within their time, requests without an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from crossline.io.sinks.base import wall_clock_ms
from crossline.observe.objectives.declaration import AVAILABILITY, DECISION_LATENCY, OF_RUN, objectives_of
from crossline.observe.objectives.minute_file import MinuteFile
from crossline.observe.objectives.recorder import Recorder
from crossline.settings.config import PipelineConfig

ONE_DECISION = "/v1/decisions/{stream}"
API = "/v1/"
LOOK_S = 1.0


class RequestCounts:
    """Counts requests of one API process, as reported by the API's own figures."""

    def __init__(self, config: PipelineConfig, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        assert config.slo is not None  # noqa: S101 - who makes it has looked
        mine = [each for each in objectives_of(config.slo) if each.name not in OF_RUN]
        self.recorder = Recorder(MinuteFile(Path(config.slo.path), config.name), mine, now_ms)

    def request(self, route: str | None, status: int, took_s: float) -> None:
        """A request whose answer begins; ``route``: the template that it was let through to, None: to none."""
        if route is None or not route.startswith(API):
            return
        self.recorder.add(AVAILABILITY, int(status < 500), 1)
        if route == ONE_DECISION and status < 300:
            self.recorder.measure_one(DECISION_LATENCY, took_s * 1000)


@asynccontextmanager
async def counting(counts: RequestCounts | None) -> AsyncIterator[None]:
    """Minutes are written as they end, as long as the context is open, and the last one at its end."""
    if counts is None:
        yield
        return
    recorder = counts.recorder

    async def go_on() -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if recorder.over():
                await asyncio.to_thread(recorder.flush)

    going = asyncio.create_task(go_on())
    try:
        yield
    finally:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        await asyncio.to_thread(recorder.flush)
