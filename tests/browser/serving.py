"""A console on a socket of this machine, in a thread, over stores that the test made."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from crossline.serve.access.protocol import uvicorn_settings
from crossline.settings.process.serve import ServeSettings

STARTED_S = 20.0


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address at which ``app`` answers, as ``crossline serve`` would have it answer."""
    given = {**uvicorn_settings(ServeSettings()), "port": 0, "lifespan": "off", "log_level": "critical"}
    server = uvicorn.Server(uvicorn.Config(app, **given, timeout_graceful_shutdown=1))
    ready = threading.Event()

    async def run() -> None:
        startup = server.startup

        async def started(sockets: Any = None) -> None:
            await startup(sockets)
            ready.set()

        server.startup = started  # type: ignore[method-assign]
        await server._serve()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="console")
    thread.start()
    try:
        assert ready.wait(STARTED_S)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
