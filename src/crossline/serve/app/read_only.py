"""What an API that is a replica elsewhere leaves to the one beside its pipeline: all that is written but decisions."""

from __future__ import annotations

from http import HTTPStatus

from crossline.serve.app.audit_writes import App, Receive, Scope, Send
from crossline.serve.http.problems import ProblemError


class ReadOnly:
    """ASGI middleware that lets reads through; a write is 421: it would go into files that the pipeline never sees."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request."""
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        detail = (
            f"found {scope['method']} {scope['path']} at a replica elsewhere; expected reads and decisions: "
            "rules, lists, holds, cases and labels are written through the API beside the pipeline"
        )
        refused = ProblemError(HTTPStatus.MISDIRECTED_REQUEST, "elsewhere", detail)
        await refused.response()(scope, receive, send)
