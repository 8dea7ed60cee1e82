"""``/events``: the API's events for the browser, which has the session's cookie and no key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from crossline.serve.console.dependencies import Receive, Scope, Send
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest

ADDRESS = "/v1/events"


async def view(asked: PageRequest) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """The API's own answer to who asks."""
    api, who = asked.parts.api, asked.who

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        state: dict[str, Any] = {**scope.get("state", {}), "principal": who, "route": ADDRESS}
        await api({**scope, "path": ADDRESS, "raw_path": ADDRESS.encode(), "state": state}, receive, send)

    return answer


PAGE = Page("events", (PageRoute("GET", "/events", view),))
