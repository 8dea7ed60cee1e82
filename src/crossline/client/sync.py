"""``Client``: the API from a program without an event loop."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from crossline.client.aio import CALL_TIMEOUT_S, SILENCE_S, AsyncClient
from crossline.client.calls import ApiCall, Record, When
from crossline.client.deadline import Deadline
from crossline.client.errors import ApiError, BadAnswerError, ClientError, UnreachableError
from crossline.client.event_loop import LoopThread
from crossline.client.fallbacks import DEFAULT, Fallback, checked_fallback, settled, unreachable
from crossline.client.resources import Resources
from crossline.client.values import Decision, Event, Mode

Given = TypeVar("Given")
# After the deadline the loop answers by itself; if it has not done so by then, the calling thread stops waiting.
GRACE_S = 0.02
CLOSE_S_MAX = 2.0
_OF_PARENTS: list[tuple[AsyncClient, LoopThread]] = []
_ALL: weakref.WeakSet[Client] = weakref.WeakSet()
_LATE = "this process did not get to the answer in time"


class Client(Resources[Any]):
    """The API of crossline from a program without an event loop; a context manager, which closes its connections.

    It is thread-safe. Requests run in an event loop in a thread of its own, so that deadlines always hold: a thread in
    a system call could not be interrupted.

    Args:
        url: Where the API listens, such as ``http://127.0.0.1:8080``.
        key: An API key or a token. It is sent with each request, and shown nowhere.
        timeout: The timeout of ``decide`` in seconds, all retries included.
        fallback: Decides if the API does not answer in time: a decision, or a function of stream and record.
        call_timeout: The timeout of all other calls in seconds.
        ca_file: CA certificates in PEM form for the server's; by default those of the system.
        options: For ``httpx.AsyncClient``, such as ``cert`` or ``verify``.

    Raises:
        ValueError: The address, the key, the timeout, the fallback or the file of certificates is invalid.

    Example:
        with Client("http://127.0.0.1:8080", key=os.environ["CROSSLINE_KEY"], timeout=0.05) as client:
            decided = client.decide("payments", payment)
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

        def make() -> AsyncClient:
            within = {"timeout": timeout, "call_timeout": call_timeout}
            return AsyncClient(url, key=key, fallback=fallback, ca_file=ca_file, options=options, **within)

        self._make: Callable[[], AsyncClient] = make
        self._lock = threading.Lock()
        _ALL.add(self)
        self._client, self._loop, self._closed = make(), LoopThread(), False

    def __repr__(self) -> str:
        return repr(self._client).removeprefix("Async")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, and end the thread."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed and self._loop.current:
            with suppress(TimeoutError):
                self._loop.wait(self._client.close(), CLOSE_S_MAX)
            self._loop.close()

    def decide(
        self, stream: str, record: Record, *, mode: Mode | None = None, timeout: float | None = None
    ) -> Decision:
        """What is decided about a record, which goes into the stream; see ``AsyncClient.decide``."""
        deadline = Deadline(self._timeout_s if timeout is None else timeout)
        client, loop = self._of_this_process()
        try:
            return loop.wait(client.asked(stream, record, mode, deadline), _within(deadline))
        except TimeoutError:
            why: ClientError | str = _LATE
        except (UnreachableError, BadAnswerError) as error:
            why = error
        # Here, not in the loop: a slow function of the caller delays no other call.
        return unreachable(self._fallback, stream, record, why)

    def decide_many(
        self, stream: str, records: Iterable[Record], *, mode: Mode | None = None, timeout: float | None = None
    ) -> list[Decision | ApiError]:
        """What is decided about each record; see ``AsyncClient.decide_many``."""
        deadline, given = Deadline(self._timeout_s if timeout is None else timeout), list(records)
        client, loop = self._of_this_process()
        try:
            found = loop.wait(client.asked_many(stream, given, mode, deadline), _within(deadline))
        except TimeoutError:
            found = [UnreachableError(_LATE)] * len(given)
        return settled(self._fallback, stream, given, found)

    def dry_run(
        self, stream: str, record: Record, *, mode: Mode | None = None, timeout: float | None = None
    ) -> Decision:
        """What would be decided: judged, not kept, without a receipt. Raises ClientError, UnreachableError included."""
        within_s = self._call_timeout_s if timeout is None else timeout
        return self._asked(lambda client: client.dry_run(stream, record, mode=mode, timeout=within_s), within_s)

    def alerts(
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
    ) -> Iterator[Mapping[str, Any]]:
        """Alerts, page by page as they are read; see ``AsyncClient.alerts``."""
        client, loop = self._of_this_process()
        found = client.alerts(
            rule_id=rule_id, severity=severity, status=status, key=key, since=since, until=until, q=q, page=page
        )
        return _each(loop, found)

    def events(
        self,
        *,
        kinds: Iterable[str] = (),
        key: Mapping[str, str] | None = None,
        last_id: str | None = None,
        silence: float = SILENCE_S,
        give_up_after: float | None = None,
    ) -> Iterator[Event]:
        """Live events; see ``AsyncClient.events``."""
        client, loop = self._of_this_process()
        found = client.events(kinds=kinds, key=key, last_id=last_id, silence=silence, give_up_after=give_up_after)
        return _each(loop, found)

    def call(self, asked: ApiCall) -> Any:
        """The body of the answer to any call (``crossline.client.calls.call`` makes them); raises ClientError."""
        return self._asked(lambda client: client.call(asked), self._call_timeout_s)

    def _asked(self, ask: Callable[[AsyncClient], Coroutine[Any, Any, Given]], within_s: float) -> Given:
        client, loop = self._of_this_process()
        try:
            return loop.wait(ask(client), within_s + GRACE_S)
        except TimeoutError:
            raise UnreachableError(f"{client!r}: {_LATE}") from None

    def _of_this_process(self) -> tuple[AsyncClient, LoopThread]:
        if self._closed:
            raise RuntimeError("the client is closed")
        if not self._loop.current:
            with self._lock:
                if not self._loop.current:
                    # Forked: connections and thread are the parent's, and closing them here would be felt there.
                    _OF_PARENTS.append((self._client, self._loop))
                    self._client, self._loop = self._make(), LoopThread()
        return self._client, self._loop


def _within(deadline: Deadline) -> float:
    return max(0.0, deadline.left_s) + GRACE_S


def _each(loop: LoopThread, found: AsyncGenerator[Given, None]) -> Iterator[Given]:
    try:
        while True:
            try:
                yield loop.wait(anext(found), None)  # type: ignore[arg-type]
            except StopAsyncIteration:
                return
    finally:
        if loop.open:
            loop.schedule(found.aclose())


def _forked() -> None:
    """In a child: a lock that another thread of the parent held would stay held."""
    for client in list(_ALL):
        client._lock = threading.Lock()  # noqa: SLF001 - of this module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
