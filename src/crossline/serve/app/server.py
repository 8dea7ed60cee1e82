"""The API's server: uvicorn on one socket, from its start to its end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import uvicorn

from crossline.basics.errors import UsageError
from crossline.serve.access.protocol import uvicorn_settings
from crossline.settings.process.serve import ServeSettings
from crossline.settings.watch import Address

BACKLOG = 2048
END_S = 5  # for what is being answered when it ends


def listening(place: Address, setting: str = "serve.listen") -> tuple[socket.socket, Address]:
    """A socket that listens at ``place``, which ``setting`` names, and where that is.

    Raises UsageError if the address is in use, or is none of this machine.
    """
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((place.host, place.port))
        bound.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        bound.close()
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(
            f"serve: cannot listen at {place}: {reason}; end what listens there, or name another place "
            f"({setting} of the pipeline file)"
        ) from None
    host, port = bound.getsockname()[:2]
    return bound, Address(str(host), int(port))


class _Server(uvicorn.Server):
    """Signals are for its parent process."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    def capture_signals(self) -> Any:
        """None of them."""
        return nullcontext()


async def serve(
    app: Any, bound: socket.socket, settings: ServeSettings, stop: asyncio.Event, started: Callable[[], None]
) -> None:
    """Answer at ``bound`` until ``stop`` is set; ``started`` is called once it does."""
    config = uvicorn.Config(
        app,
        **uvicorn_settings(settings),
        loop="none",  # the caller's
        timeout_graceful_shutdown=END_S,
    )
    server = _Server(config, started)
    serving = asyncio.create_task(server.serve([bound]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stopping.cancel()
    await serving
