"""Every write through the API in the audit log: who, what, what stood there before, what stands there now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any

import orjson

from crossline.basics.errors import RetryableError
from crossline.basics.streams.schema import StreamSpec
from crossline.io.tokens.lookup import list_tokens
from crossline.serve.access.audit import AuditLog
from crossline.serve.http.problems import problem_of

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# What changes nothing: trials, which take long and which only their caller reads.
_TRIALS = frozenset(f"/v1/rules:{each}" for each in ("backtest", "check", "form", "prove", "test", "thresholds"))
_SHOWN_BYTES = 64 * 1024
_LISTS = "/v1/lists/"


class AuditMiddleware:
    """ASGI middleware around the routes that are no decisions; they are asked what stands there by their own GET.

    Args:
        app: The routes.
        log: The audit log.
        resource: An address as the log shows it, without sensitive values.
    """

    def __init__(self, app: App, log: AuditLog, resource: Callable[[str], str] = str) -> None:
        self._app = app
        self._log = log
        self._resource = resource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request; reads pass."""
        state = scope.get("state") or {}
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD"} or state.get("route") in {*_TRIALS, None}:
            await self._app(scope, receive, send)
            return
        before = await self._stands(scope) if scope["method"] in {"PUT", "PATCH", "DELETE"} else None
        observer = _ResponseObserver(send)
        asked = (state["principal"], scope["method"], str(state["route"]), self._resource(str(scope["path"])))
        try:
            async with self._log.writing(*asked, before) as write:
                await self._app(scope, receive, observer.send)
                write.after = observer.body()
                if observer.status >= HTTPStatus.BAD_REQUEST:
                    write.outcome = "failed" if observer.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "refused"
        except RetryableError as error:
            if observer.status:
                raise  # it is done and answered; the log lacks the line about the end, which `verify` reports
            await problem_of(error).response()(scope, receive, send)

    async def _stands(self, scope: Scope) -> Any:
        """The answer to a GET of the same address now; None if there is nothing."""
        observer = _ResponseObserver(None)

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        asked = {**scope, "method": "GET", "query_string": b"", "headers": [], "state": dict(scope["state"])}
        await self._app(asked, nothing, observer.send)
        return observer.body() if observer.status == HTTPStatus.OK else None


class _ResponseObserver:
    """What an app answers, on its way to ``send``."""

    def __init__(self, send: Send | None) -> None:
        self._send = send
        self.status = 0
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif len(self._body) <= _SHOWN_BYTES:
            self._body += message.get("body", b"")
        if self._send is not None:
            await self._send(message)

    def body(self) -> Any:
        """Its JSON; how large it is where it is too large to be logged."""
        if len(self._body) > _SHOWN_BYTES:
            return {"bytes_more_than": _SHOWN_BYTES}
        try:
            return orjson.loads(bytes(self._body)) if self._body else None
        except orjson.JSONDecodeError:
            return None


def without_values(streams: Mapping[str, StreamSpec], path: str) -> str:
    """The address ``path``; an entry of a list of sensitive values as its token."""
    if not path.startswith(_LISTS):
        return path
    name, slash, entry = path.removeprefix(_LISTS).partition("/")
    make = list_tokens(streams).get(name)
    return path if make is None or not entry else f"{_LISTS}{name}{slash}{make([entry])[0]}"
