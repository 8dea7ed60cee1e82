"""Reads the parts of pages at the start, so that no first request waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from crossline.logs import get_logger
from crossline.serve.access.roles import SCOPES, Principal
from crossline.serve.console.api_calls import ApiResponse, scope_of
from crossline.serve.console.dependencies import PageDependencies
from crossline.serve.console.layout.render import environment

# What most pages ask for: rules and how they do, the columns of the queue, what the store has.
ASKED: Sequence[tuple[str, str]] = (
    ("/v1/health/rules", ""),
    ("/v1/cases", "limit=1"),
    ("/v1/search", "q=a&limit=1"),
    ("/v1/alerts", "limit=1"),
    ("/v1/lists", ""),
    ("/v1/objectives", ""),
)
WHO = Principal("console", frozenset(SCOPES), "session")
_FROM: dict[str, Any] = {"client": None, "server": None, "scheme": "http", "http_version": "1.1", "headers": []}

log = get_logger(__name__)


async def warm(parts: PageDependencies) -> None:
    """Read templates, and ask the API once for what pages ask. What cannot be read now is read by who looks first."""
    await asyncio.to_thread(_templates)
    for path, query in ASKED:
        answer = ApiResponse()
        state = {"principal": WHO, "route": path}
        given = {"client": ("127.0.0.1", 0), "server": ("127.0.0.1", 80), "scheme": "http", "http_version": "1.1"}
        try:
            await parts.api(
                scope_of("GET", path, query, {**given, "headers": [], "state": state}), answer.receive, answer.send
            )
        except Exception as error:  # noqa: BLE001 - any error shows again, and is reported, on the page itself
            log.debug("what pages ask for could not be read at the start", path=path, reason=str(error))


def _templates() -> None:
    made = environment()
    for name in made.list_templates(extensions=["html"]):
        made.get_template(name)
