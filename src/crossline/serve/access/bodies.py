"""A request: its head, read in one way alone, its body, bounded while it comes; and the headers of every answer."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from crossline.basics.texts.uris import is_loopback
from crossline.logs import get_logger
from crossline.serve.http.problems import MEDIA_TYPE, ProblemError, refusal

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::\d{1,5})?", re.ASCII)
Message = MutableMapping[str, Any]
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The fields of a head. ``credential``: the header Authorization; ``length``: bytes of the body, if given."""

    credential: bytes | None
    length: int | None


def checked_head(scope: MutableMapping[str, Any]) -> RequestHead:
    """The head of a request. Raises ProblemError (400) if it repeats a field, or has two lengths of the body."""
    credential: bytes | None = None
    length: int | None = None
    coded = False
    for name, value in scope["headers"]:
        if name == b"authorization":
            if credential is not None:
                raise refusal(400, "found two headers Authorization; expected one")
            credential = value
        elif name == b"content-length":
            if length is not None or not value.isdigit():
                raise refusal(400, "found no plain Content-Length, or two; expected one number")
            length = int(value[:20])
        elif name == b"transfer-encoding":
            if coded or value.lower() != b"chunked":
                raise refusal(400, "found a Transfer-Encoding that is not chunked; expected none, or chunked")
            coded = True
    if coded and length is not None:
        raise refusal(400, "found Content-Length and Transfer-Encoding; expected one of them")
    return RequestHead(credential, length)


@lru_cache(maxsize=256)
def is_here(host: bytes) -> bool:
    """Whether a header Host names this machine by its loopback address."""
    found = _HOST.fullmatch(host.decode("latin-1").lower())
    return found is not None and is_loopback(found[1] or found[2])


class BodyTooLargeError(Exception):
    """Ends the reading of a body in the app; what the app makes of it is not sent."""


class BoundedBody:
    """One request and its answer.

    Once more came than ``bytes_max``, the app gets nothing more and the client gets 413, whatever the app answers.
    A stream ends with the first message after which ``check`` fails: its credential was revoked, or has expired.

    Args:
        receive: Of ASGI.
        send: Of ASGI.
        headers: What every answer has.
    """

    __slots__ = ("_ended", "_gone", "_headers", "_over", "_read", "_receive", "_send", "_started", "bytes_max", "check")

    def __init__(
        self,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
        headers: tuple[tuple[bytes, bytes], ...],
    ) -> None:
        self._receive = receive
        self._send = send
        self._headers = headers
        self._read = 0
        self._over: ProblemError | None = None
        self._started = self._gone = self._ended = False
        self.bytes_max = 0
        self.check: Callable[[], bool] | None = None

    def bound(self, head: RequestHead, bytes_max: int) -> None:
        """Take no more than ``bytes_max``. Raises ProblemError (413) if the head has a greater length already."""
        self.bytes_max = bytes_max
        if head.length is not None and head.length > bytes_max:
            raise self.too_large(f"{head.length:,}")

    async def run(self, app: Callable[..., Awaitable[None]], scope: MutableMapping[str, Any]) -> None:
        """Let ``app`` answer."""
        try:
            await app(scope, self.receive, self.send)
        except Exception:
            if self._gone:
                return  # the client is gone
            if self._started:
                raise
            if self._over is None:
                log.exception("a request could not be answered", route=scope.get("state", {}).get("route"))
                await self.refuse(refusal(500, "found a fault within the API; expected none. Its log has the details"))
        if self._over is not None and not self._started:
            await self.refuse(self._over)

    async def receive(self) -> Message:
        """The next of the body. Raises BodyTooLargeError once it is too large."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self.bytes_max:
                self._over = self.too_large(f"more than {self.bytes_max:,}")
                raise BodyTooLargeError
        elif message["type"] == "http.disconnect":
            self._gone = True
        return message

    async def send(self, message: Message) -> None:
        """A part of the answer."""
        if message["type"] == "http.response.start":
            if self._over is not None:
                return
            self._started = True
            given = message.get("headers", ())
            names = {name.lower() for name, _ in given}
            message["headers"] = [*given, *(each for each in self._headers if each[0] not in names)]
        elif not self._started or self._ended:
            return
        elif message.get("more_body") and self.check is not None and not self.check():
            self._ended = True  # of a stream: nothing more is sent to a credential that ended meanwhile
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def refuse(self, problem: ProblemError) -> None:
        """Answer with ``problem``. What of the body has not been read is dropped (``protocol`` bounds how much)."""
        body = problem.body()
        headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        headers += [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            *self._headers,
        ]
        if problem.status == 400:  # where this request ends is not sure
            headers.append((b"connection", b"close"))
        self._started = True
        await self._send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def too_large(self, found: str) -> ProblemError:
        """The answer to a body that is too large."""
        return refusal(
            413, f"found a body of {found} bytes; expected at most {self.bytes_max:,} (serve.limits.body_max)"
        )
