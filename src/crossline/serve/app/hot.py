"""Requests for decisions as plain Starlette routes: no model is built of a record that the stream's decoder reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from crossline.core.settings.process.serve import TIMEOUT_MS_MAX, TIMEOUT_MS_MIN
from crossline.serve.decisions.replies import JSON, Reply, problem
from crossline.serve.decisions.service import Decisions, Mode

BATCH_MAX = 500
DRY_MAX = 20  # of one batch: each is judged in a fork of its own, for which all others wait
MODES: dict[str, Mode] = {"exact": "exact", "peek": "peek"}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_KNOWN = {"mode", "timeout_ms", "dry_run"}


@dataclass(frozen=True, slots=True)
class Wish:
    """How a request wants to be answered."""

    mode: Mode
    timeout_s: float
    dry_run: bool


@dataclass(frozen=True, slots=True)
class HotRoutes:
    """The routes of decisions. ``mode``, ``timeout_ms``: of requests that do not say."""

    decisions: Decisions
    mode: Mode
    timeout_ms: int

    def routes(self) -> list[Route]:
        """To be put before all others."""
        return [
            Route("/v1/decisions/{stream}:batch", self.batch, methods=["POST"]),
            Route("/v1/decisions/{stream}", self.one, methods=["POST"]),
        ]

    async def one(self, request: Request) -> Response:
        """``POST /v1/decisions/{stream}``: a record in, its decision out."""
        wish = self._wish(request.query_params)
        if isinstance(wish, Reply):
            return response(wish)
        stream = request.path_params["stream"]
        body = await request.body()
        return response(await self.decisions.decide(stream, body, wish.mode, wish.timeout_s, dry_run=wish.dry_run))

    async def batch(self, request: Request) -> Response:
        """``POST /v1/decisions/{stream}:batch``: a list of records in, a decision or problem of each out."""
        wish = self._wish(request.query_params)
        if isinstance(wish, Reply):
            return response(wish)
        bodies = _bodies(await request.body())
        if isinstance(bodies, Reply):
            return response(bodies)
        if wish.dry_run and len(bodies) > DRY_MAX:
            return response(_unfit("/records", f"{len(bodies)} records of a dry run", f"1 to {DRY_MAX}"))
        access = request.scope.get("state", {}).get("access")
        if access is not None:  # it has counted one request; a batch is as many as it has records
            access.charge(request.scope["state"]["principal"], len(bodies) - 1)
        stream, given = request.path_params["stream"], (wish.mode, wish.timeout_s)
        asked = (self.decisions.decide(stream, body, *given, dry_run=wish.dry_run) for body in bodies)
        replies = await asyncio.gather(*asked)
        return Response(b"[" + b",".join(reply.body for reply in replies) + b"]", media_type=JSON)

    def _wish(self, given: Mapping[str, str]) -> Wish | Reply:
        unknown = sorted(given.keys() - _KNOWN)
        if unknown:
            return _unfit(unknown[0][:100], "a parameter that is not known", ", ".join(sorted(_KNOWN)))
        mode = MODES.get(given.get("mode", self.mode))
        if mode is None:
            return _unfit("mode", given["mode"][:100], "exact or peek")
        timeout_ms = given.get("timeout_ms", str(self.timeout_ms))
        if not timeout_ms.isascii() or not timeout_ms.isdigit() or len(timeout_ms) > len(str(TIMEOUT_MS_MAX)):
            return _unfit("timeout_ms", timeout_ms[:100], f"a whole number, {TIMEOUT_MS_MIN} to {TIMEOUT_MS_MAX}")
        if not TIMEOUT_MS_MIN <= int(timeout_ms) <= TIMEOUT_MS_MAX:
            return _unfit("timeout_ms", timeout_ms, f"{TIMEOUT_MS_MIN} to {TIMEOUT_MS_MAX}")
        dry_run = _FLAGS.get(given.get("dry_run", "false"))
        if dry_run is None:
            return _unfit("dry_run", given["dry_run"][:100], "true or false")
        return Wish(mode, int(timeout_ms) / 1000, dry_run)


def _bodies(body: bytes) -> list[bytes] | Reply:
    """The records of a batch, each as JSON."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return problem(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {error}")
    records: Any = said.get("records") if isinstance(said, dict) else None
    if not isinstance(records, list) or len(said) != 1:
        return _unfit("/records", type(records).__name__, 'one JSON object, {"records": [...]}')
    if not 1 <= len(records) <= BATCH_MAX:
        return _unfit("/records", f"{len(records)} records", f"1 to {BATCH_MAX}")
    try:
        return [orjson.dumps(record) for record in records]
    except orjson.JSONEncodeError as error:
        return problem(HTTPStatus.BAD_REQUEST, f"a record is no JSON that can be written again: {error}")


def _unfit(pointer: str, found: str, expected: str) -> Reply:
    errors = [{"pointer": pointer, "found": found, "expected": expected, "hint": None}]
    return problem(HTTPStatus.BAD_REQUEST, f"{pointer}: found {found}; expected {expected}", errors)


def response(reply: Reply) -> Response:
    """``reply``, to be sent."""
    return Response(reply.body, reply.status, dict(reply.headers), reply.form)
