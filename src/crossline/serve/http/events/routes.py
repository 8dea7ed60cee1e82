"""``/v1/events``: listen to alerts, corrections, decisions and revisions as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from crossline.basics.texts.problems import nearest, one_of, shown
from crossline.serve.http.deps import Dependencies, required
from crossline.serve.http.events.source import KINDS, EventId, EventSource, LiveEvent
from crossline.serve.http.events.stream import EventFilter, EventStream, StreamLimits
from crossline.serve.http.principals import Asking, Principal, may_read, needs
from crossline.serve.http.problems import ProblemError, invalid
from crossline.serve.http.queries import keys_in, only_known

CLIENTS_MAX = 256
ID_CHARS = 200
_TODO = "start crossline serve beside the pipeline's checkpoint, which has what each batch gave"

After = Annotated[str | None, Header(max_length=ID_CHARS, alias="Last-Event-ID", description="Where it broke off.")]


class Listeners:
    """How many clients listen, and how many may."""

    def __init__(self, clients_max: int = CLIENTS_MAX) -> None:
        self.count = 0
        self._clients_max = clients_max

    def take(self) -> None:
        """One more. Raises ProblemError (503) if there are too many."""
        if self.count >= self._clients_max:
            raise ProblemError(
                503,
                "try-again",
                f"{self.count} clients listen already; listen again later",
                headers={"Retry-After": "10"},
            )
        self.count += 1

    def leave(self) -> None:
        """One has gone."""
        self.count -= 1


class OwnEvents:
    """Those of ``source`` that are about decisions of streams that ``who`` may ask about."""

    def __init__(self, source: EventSource, who: Principal) -> None:
        self._source = source
        self._who = who

    async def follow(self, after: EventId | None) -> AsyncIterator[LiveEvent]:
        """See ``EventSource``."""
        async for event in self._source.follow(after):
            if event.kind in {"decision", "revision"} and may_read(
                self._who, str(orjson.loads(event.body).get("stream"))
            ):
                yield event


def event_routes(deps: Dependencies, listeners: Listeners, bounds: StreamLimits | None = None) -> APIRouter:
    """The route of events."""
    routes = APIRouter(tags=["events"])

    @routes.get(
        "/v1/events",
        openapi_extra=needs("read:alerts"),
        summary="Listen to what happens",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    )
    async def events(
        request: Request,
        who: Asking,
        kinds: Annotated[str, Query(max_length=100, description="Kinds, with commas between them.")] = ",".join(KINDS),
        last_event_id: After = None,
    ) -> Any:
        """Events with ids: ``alert``, ``correction``, ``decision``, ``revision``, ``case``, ``prediction``.

        A ``case`` is sent as it is after a change; changes in quick succession may be sent as one. A
        ``prediction`` is sent when the prediction of a backtest is broken, restored, or over.

        Filter by ``key.FIELD=VALUE``. ``gap``: events after ``Last-Event-ID`` are not kept any more;
        ``cut_off`` and ``end`` are the last that a client hears.
        """
        only_known(request, "key.")
        wanted = EventFilter(_kinds(kinds), keys_in(request), _id(last_event_id))
        source: EventSource = required(deps.events, "events", _TODO)
        if not may_read(who):
            source = OwnEvents(source, who)
        listeners.take()
        return EventStream(source, wanted, bounds or StreamLimits(), listeners.leave)

    return routes


def _kinds(text: str) -> frozenset[str]:
    given = [each.strip() for each in text.split(",")]
    for each in given:
        if each not in KINDS:
            raise invalid("?kinds", shown(each), one_of(KINDS), nearest(each, KINDS))
    return frozenset(given)


def _id(text: str | None) -> str | None:
    if text is not None and not text.isprintable():
        raise invalid("header Last-Event-ID", shown(text), "the id of an event, as it was")
    return text or None
