"""Requests for decisions, before all routing: no model is built of a record that the stream's decoder reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl

from crossline.serve.access.middleware import App, Receive, Scope, Send
from crossline.serve.app.batch import NoBatchError, records_of
from crossline.serve.decisions.replies import HttpReply, problem
from crossline.serve.decisions.service import DecisionService, Mode
from crossline.serve.http.problems import MEDIA_TYPE, ProblemError
from crossline.settings.process.serve import TIMEOUT_MS_MAX, TIMEOUT_MS_MIN

PREFIX, BATCH = "/v1/decisions/", ":batch"
BATCH_MAX = 500
WISHES_MAX, WISH_BYTES_MAX = 1_000, 200  # queries that are remembered, and how long one may be
MODES: dict[str, Mode] = {"exact": "exact", "peek": "peek"}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_KNOWN = {"mode", "timeout_ms", "dry_run"}


@dataclass(frozen=True, slots=True)
class AnswerPreference:
    """How a request wants to be answered."""

    mode: Mode
    timeout_s: float
    dry_run: bool


@dataclass(frozen=True, slots=True)
class HotRoutes:
    """Requests for decisions as an ASGI app around ``rest``, which gets all others.

    ``mode``, ``timeout_ms``: of requests that do not say.
    """

    decisions: DecisionService
    mode: Mode
    timeout_ms: int
    rest: App
    _wishes: dict[bytes, AnswerPreference | HttpReply] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """``POST /v1/decisions/{stream}`` and ``POST /v1/decisions/{stream}:batch``; anything else is for ``rest``."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(PREFIX):
            await self.rest(scope, receive, send)
            return
        stream = scope["path"][len(PREFIX) :]
        if not stream or "/" in stream:
            await self.rest(scope, receive, send)
            return
        body = await body_of(receive)
        if body is None:
            return  # who asked has gone
        wish = self._wish_of(scope["query_string"])
        if isinstance(wish, HttpReply):
            reply = wish
        elif stream.endswith(BATCH):
            reply = await self._batch(scope, stream.removesuffix(BATCH), body, wish)
        else:
            reply = await self.decisions.decide(stream, body, wish.mode, wish.timeout_s, dry_run=wish.dry_run)
        await respond(reply, send)

    async def _batch(self, scope: Scope, stream: str, body: bytes, wish: AnswerPreference) -> HttpReply:
        """A list of records in, a decision or problem of each out."""
        bodies = _bodies(body)
        if isinstance(bodies, HttpReply):
            return bodies
        state = scope.get("state", {})
        if "access" in state:  # it has counted one request; a batch is as many as it has records
            try:
                state["access"].charge(state["principal"], len(bodies) - 1)
            except ProblemError as error:
                return HttpReply(error.status, error.body(), MEDIA_TYPE, error.headers)
        if wish.dry_run:
            replies = await self.decisions.dry(stream, bodies, wish.timeout_s)
        else:
            asked = (self.decisions.decide(stream, each, wish.mode, wish.timeout_s) for each in bodies)
            replies = await asyncio.gather(*asked)
        return HttpReply(HTTPStatus.OK, b"[" + b",".join(reply.body for reply in replies) + b"]")

    def _wish_of(self, query: bytes) -> AnswerPreference | HttpReply:
        """A client sends the same query each time: it is parsed once."""
        wish = self._wishes.get(query)
        if wish is None:
            wish = self._wish(dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)))
            if len(self._wishes) >= WISHES_MAX:
                self._wishes.clear()
            if len(query) <= WISH_BYTES_MAX:
                self._wishes[query] = wish
        return wish

    def _wish(self, given: Mapping[str, str]) -> AnswerPreference | HttpReply:
        unknown = sorted(given.keys() - _KNOWN)
        if unknown:
            return _unfit(f"?{unknown[0][:100]}", "a parameter that is not known", ", ".join(sorted(_KNOWN)))
        mode = MODES.get(given.get("mode", self.mode))
        if mode is None:
            return _unfit("?mode", given["mode"][:100], "exact or peek")
        timeout_ms = given.get("timeout_ms", str(self.timeout_ms))
        if not timeout_ms.isascii() or not timeout_ms.isdigit() or len(timeout_ms) > len(str(TIMEOUT_MS_MAX)):
            return _unfit("?timeout_ms", timeout_ms[:100], f"a whole number, {TIMEOUT_MS_MIN} to {TIMEOUT_MS_MAX}")
        if not TIMEOUT_MS_MIN <= int(timeout_ms) <= TIMEOUT_MS_MAX:
            return _unfit("?timeout_ms", timeout_ms, f"{TIMEOUT_MS_MIN} to {TIMEOUT_MS_MAX}")
        dry_run = _FLAGS.get(given.get("dry_run", "false"))
        if dry_run is None:
            return _unfit("?dry_run", given["dry_run"][:100], "true or false")
        return AnswerPreference(mode, int(timeout_ms) / 1000, dry_run)


def _bodies(body: bytes) -> list[bytes] | HttpReply:
    """The records of a batch, each as JSON."""
    try:
        records = records_of(body)
    except NoBatchError as error:
        return problem(HTTPStatus.BAD_REQUEST, str(error))
    if not 1 <= len(records) <= BATCH_MAX:
        return _unfit("/records", f"{len(records)} records", f"1 to {BATCH_MAX}")
    return records


def _unfit(pointer: str, found: str, expected: str) -> HttpReply:
    errors = [{"pointer": pointer, "found": found, "expected": expected, "hint": None}]
    return problem(HTTPStatus.BAD_REQUEST, f"{pointer}: found {found}; expected {expected}", errors)


async def body_of(receive: Receive) -> bytes | None:
    """All of a request's body; None if its client went before it was there."""
    message = await receive()
    if not message.get("more_body"):
        return message.get("body", b"") if message["type"] == "http.request" else None
    pieces = []
    while message["type"] == "http.request":
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)
        message = await receive()
    return None


async def respond(reply: HttpReply, send: Send) -> None:
    """Send ``reply``."""
    headers = [(b"content-type", reply.form.encode()), (b"content-length", b"%d" % len(reply.body))]
    headers += [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": int(reply.status), "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
