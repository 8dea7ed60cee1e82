"""``AsyncClient``: the API from a program with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from crossline.client.calls import (
    BATCH_MAX,
    PAGE_MAX,
    ApiCall,
    Record,
    When,
    batch_json,
    call,
    instant_text,
    key_query,
    record_json,
)
from crossline.client.deadline import Deadline, pause_s
from crossline.client.errors import ApiError, BadAnswerError, ClientError, UnreachableError, problem_error
from crossline.client.events import follow
from crossline.client.fallbacks import DEFAULT, Fallback, checked_fallback, settled, unreachable
from crossline.client.resources import Resources
from crossline.client.values import Decision, Event, Mode
from crossline.client.wire import AGAIN, Response, Wire, trusting

CALL_TIMEOUT_S = 10.0
SILENCE_S = 60.0


class AsyncClient(Resources[Coroutine[Any, Any, Any]]):
    """The API of crossline from a program with an event loop; a context manager, which closes its connections.

    Args:
        url: Where the API listens, such as ``http://127.0.0.1:8080``.
        key: An API key or a token. It is sent with each request, and shown nowhere.
        timeout: Seconds within which ``decide`` has answered, all tries together.
        fallback: Decides where the API gives no answer in time: a decision, or a function of stream and record.
        call_timeout: Seconds within which all else has answered.
        ca_file: Certificates in PEM form that the server's must rest on; without it those that the system trusts.
        options: For ``httpx.AsyncClient``, such as ``cert`` or ``verify``.

    Raises:
        ValueError: The address, the key, the time, the fallback or the file of certificates is none.

    Example:
        async with AsyncClient("http://127.0.0.1:8080", timeout=0.05) as client:
            decided = await client.decide("payments", payment)
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 0.05,
        fallback: Fallback = DEFAULT,
        call_timeout: float = CALL_TIMEOUT_S,
        ca_file: str | Path | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._timeout_s, self._call_timeout_s = Deadline(timeout).timeout_s, Deadline(call_timeout).timeout_s
        self._fallback = checked_fallback(fallback)
        self._wire = Wire(url, key, {**trusting(ca_file), **(options or {})})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wire.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._wire.close()

    async def decide(
        self,
        stream: str,
        record: Record,
        *,
        mode: Mode | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline over several tries
    ) -> Decision:
        """Decide about a record, which is written to the stream.

        It never blocks past the timeout, and never raises because the API is unreachable: then ``answered`` is
        ``unreachable``, the decision is the fallback's, and ``degraded`` has the reason. The record may still be in the
        stream; a repeated request with the same record gets the same answer.

        Args:
            stream: Its name.
            record: As in stream.yaml; or its JSON as bytes.
            mode: ``peek`` or ``exact``; without one the server's ``serve.mode``.
            timeout: Seconds; without it the client's.

        Raises:
            ApiError: The API refuses: ``CredentialError`` (401), ``ForbiddenError`` (403), ``NotFoundError`` (404: no
                such stream), ``ConflictError`` (409: the id has another record), ``TooLargeError`` (413),
                ``InvalidError`` (422: the record does not fit the stream), ``RateLimitedError`` (429).
            TypeError, ValueError: The record cannot be written as JSON.
        """
        deadline = Deadline(self._timeout_s if timeout is None else timeout)
        try:
            return await self.asked(stream, record, mode, deadline)
        except (UnreachableError, BadAnswerError) as error:
            return unreachable(self._fallback, stream, record, error)

    async def asked(self, stream: str, record: Record, mode: Mode | None, deadline: Deadline) -> Decision:
        """As ``decide``, by a deadline that runs already; raises UnreachableError and BadAnswerError too."""
        asked = call("decide", [stream], query={"mode": mode}, body=record_json(record))
        return _decision(await self._wire.ask(asked, deadline, decides=True))

    async def decide_many(
        self,
        stream: str,
        records: Iterable[Record],
        *,
        mode: Mode | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline over several tries
    ) -> list[Decision | ApiError]:
        """Decide about each record, in order; a refused record has the ApiError as its result (not raised).

        ``timeout`` covers all of them; a request has at most 500 records. It raises as ``decide`` if the first request
        is refused as a whole; if a later one is, each of its records has the ApiError.
        """
        deadline = Deadline(self._timeout_s if timeout is None else timeout)
        given = list(records)
        return settled(self._fallback, stream, given, await self.asked_many(stream, given, mode, deadline))

    async def asked_many(
        self, stream: str, records: Sequence[Record], mode: Mode | None, deadline: Deadline
    ) -> list[Decision | ClientError]:
        """As ``decide_many``, with a running deadline; unanswered records have the error."""
        lines = [record_json(record) for record in records]
        found: list[Decision | ClientError] = []
        for start in range(0, len(lines), BATCH_MAX):
            some = lines[start : start + BATCH_MAX]
            try:
                found += await self._asked_batch(stream, some, mode, deadline)
            except ApiError as error:
                if not start:
                    raise
                found += [error] * len(some)
            except ClientError as error:
                found += [error] * len(some)
        return found

    async def _asked_batch(
        self, stream: str, lines: Sequence[bytes], mode: Mode | None, deadline: Deadline
    ) -> list[Decision | ClientError]:
        """The answers to one batch; records that the API could not store are sent again until the deadline."""
        found: dict[int, Decision | ClientError] = {}
        left, failed = list(range(len(lines))), 0
        while left:
            body = batch_json([lines[number] for number in left])
            asked = call("decide_many", [stream], query={"mode": mode}, body=body)
            try:
                answers = _decisions(await self._wire.ask(asked, deadline, decides=True), len(left))
            except ClientError as error:
                if not failed:
                    raise
                found |= dict.fromkeys(left, error)
                break
            found |= dict(zip(left, answers, strict=True))
            left = [number for number in left if _passes(found[number])]
            failed += 1
            if left:
                await asyncio.sleep(max(0.0, min(pause_s(failed), deadline.left_s)))
        return [found[number] for number in range(len(lines))]

    async def dry_run(
        self,
        stream: str,
        record: Record,
        *,
        mode: Mode | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline over several tries
    ) -> Decision:
        """What would be decided: judged, not kept, without a receipt. Raises ClientError, UnreachableError included."""
        asked = call("decide", [stream], query={"mode": mode, "dry_run": "true"}, body=record_json(record))
        deadline = Deadline(self._call_timeout_s if timeout is None else timeout)
        return _decision(await self._wire.ask(asked, deadline, decides=True))

    async def alerts(
        self,
        *,
        rule_id: str | None = None,
        severity: str | None = None,
        status: str | None = None,
        key: Mapping[str, str] | None = None,
        since: When | None = None,
        until: When | None = None,
        q: str | None = None,
        page: int = 100,
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        """Alerts, page by page of ``page`` (at most 500) as they are read; ``key``: of these values of key fields."""
        if not 1 <= page <= PAGE_MAX:
            raise ValueError(f"page is {page}; expected 1 to {PAGE_MAX}")
        query = {"rule_id": rule_id, "severity": severity, "status": status, "q": q, "limit": page, **key_query(key)}
        query |= {"from": instant_text(since), "to": instant_text(until)}
        cursor: str | None = None
        while True:
            items, cursor = page_of(await self.call(call("alerts", query={**query, "cursor": cursor})), cursor)
            for item in items:
                yield item
            if cursor is None:
                return

    async def events(
        self,
        *,
        kinds: Iterable[str] = (),
        key: Mapping[str, str] | None = None,
        last_id: str | None = None,
        silence: float = SILENCE_S,
        give_up_after: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Live events: ``alert``, ``correction``, ``decision``, ``revision``; connects again where it broke off.

        Args:
            kinds: Those that are wanted; none: all.
            key: Of these values of key fields alone.
            last_id: Go on after this event, of an earlier run.
            silence: Seconds without a byte after which it connects again.
            give_up_after: Seconds without a connection after which UnreachableError is raised; None: never.
        """
        query = {"kinds": ",".join(kinds) or None, **key_query(key)}
        asked = call("events", query=query)
        found = follow(self._wire, asked, last_id, silence_s=silence, give_up_after_s=give_up_after)
        try:
            async for event in found:
                yield event
        finally:
            await found.aclose()

    async def call(self, asked: ApiCall) -> Any:
        """The body of the answer to any call (``crossline.client.calls.call`` makes them); raises ClientError."""
        return (await self.answer(asked)).body

    async def answer(self, asked: ApiCall) -> Response:
        """The same with status and headers, such as ``ETag``."""
        return await self._wire.ask(asked, Deadline(self._call_timeout_s))


def page_of(body: Any, asked: str | None) -> tuple[Sequence[Mapping[str, Any]], str | None]:
    """The items of a page, and the cursor of the next; raises BadAnswerError where it is no page, or the same again."""
    if not isinstance(body, Mapping) or not isinstance(body.get("items"), list):
        raise BadAnswerError("a page has another form; expected {items: [...], next_cursor: ...}")
    cursor = body.get("next_cursor")
    if cursor is not None and cursor == asked:
        raise BadAnswerError("the next page has the cursor of this one; it would never end")
    return body["items"], cursor


def _passes(found: Decision | ClientError) -> bool:
    """Whether the API could not answer about a record now, which is no refusal."""
    return isinstance(found, ApiError) and (found.status in AGAIN or found.status >= 500)


def _decision(answer: Response) -> Decision:
    try:
        return Decision.from_json(answer.body, replayed=answer.replayed)
    except ValueError as error:
        raise BadAnswerError(f"the answer is no decision: {error}") from None


def _decisions(answer: Response, count: int) -> list[Decision | ApiError]:
    body = answer.body
    if not isinstance(body, list) or len(body) != count:
        found = f"{len(body)} items" if isinstance(body, list) else type(body).__name__
        raise BadAnswerError(f"the answer to a batch of {count} records: found {found}; expected a list of as many")
    made: list[Decision | ApiError] = []
    for each in body:
        if isinstance(each, Mapping) and "decision" not in each and isinstance(each.get("status"), int):
            made.append(problem_error(each["status"], each))
        else:
            made.append(_decision(Response(answer.status, each)))
    return made
