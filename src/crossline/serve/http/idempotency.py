"""``Idempotency-Key``: a write that is sent again is answered as the first time, and done once."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crossline.serve.http.principals import let_in
from crossline.serve.http.problems import ProblemError, conflict
from crossline.serve.steady_clock import SLACK_MS, SteadyClock

HEADER = b"idempotency-key"
REPLAYED = (b"idempotency-replayed", b"true")
KEPT_MS = 86_400_000
KEPT_MAX = 100_000
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_KEY = re.compile(rb"[\x21-\x7e]{1,200}")
_FAULTS = 500  # from this status on the outcome is unknown: the next request tries again
_TABLE = """CREATE TABLE IF NOT EXISTS answers (
    who TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, run TEXT NOT NULL, at_ms INTEGER NOT NULL,
    status INTEGER, headers BLOB, body BLOB, PRIMARY KEY (who, key)) WITHOUT ROWID"""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An answer that was given."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class ResponseStore:
    """The answers to writes that bore a key, in a SQLite file, for a day.

    A key belongs to its caller: the same key of another caller is another one. A write that this process began and has
    not answered yet is still being done; one of a process that ended meanwhile is done again, since its outcome is
    unknown.

    The clock may be wrong, also where a process starts: the newest answer is a lower bound of the time, and a clock
    that is far ahead of it is believed after a day. Until then answers are kept, and noted, by the machine's own count.

    Args:
        path: The file.
        wall_ms: The wall clock, in epoch milliseconds.
        count_s: Seconds that only grow.
    """

    def __init__(self, path: Path, wall_ms: Callable[[], int], count_s: Callable[[], float] = time.monotonic) -> None:
        self._run = os.urandom(8).hex()
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(_TABLE)
        self._connection.execute("CREATE INDEX IF NOT EXISTS answers_by_time ON answers (at_ms)")
        newest_ms = self._connection.execute("SELECT max(at_ms) FROM answers").fetchone()[0]
        self._clock_ms, self._believed = SteadyClock(wall_ms, count_s, known_ms=newest_ms), 0

    def claim(self, who: str, key: str, digest: str) -> StoredResponse | None:
        """The answer that was given; None: the caller does the write now, and calls ``keep`` or ``give_up``.

        Raises ProblemError (409) if the key was for something else, or the write is being done at this moment.
        """
        with self._lock:
            now_ms = self._now()
            self._connection.execute("DELETE FROM answers WHERE at_ms < ?", (now_ms - KEPT_MS,))
            row = self._connection.execute(
                "SELECT digest, run, status, headers, body FROM answers WHERE who = ? AND key = ?", (who, key)
            ).fetchone()
            if row is None or (row[2] is None and row[1] != self._run and row[0] == digest):
                self._make_room()
                self._connection.execute(
                    "INSERT OR REPLACE INTO answers (who, key, digest, run, at_ms) VALUES (?, ?, ?, ?, ?)",
                    (who, key, digest, self._run, now_ms),
                )
                return None
        if row[0] != digest:
            raise conflict(
                f"Idempotency-Key {key} was sent with another request before; expected a key of its own for each",
                "idempotency-key",
            )
        if row[2] is None:
            raise ProblemError(
                409,
                "in-progress",
                f"the request with Idempotency-Key {key} is still being answered; send it again in a second",
                headers={"Retry-After": "1"},
            )
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in orjson.loads(row[3])]
        return StoredResponse(row[2], headers, row[4])

    def keep(self, who: str, key: str, answer: StoredResponse) -> None:
        """Note what was answered."""
        headers = orjson.dumps([(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers])
        with self._lock:
            self._connection.execute(
                "UPDATE answers SET status = ?, headers = ?, body = ? WHERE who = ? AND key = ? AND run = ?",
                (answer.status, headers, answer.body, who, key, self._run),
            )

    def give_up(self, who: str, key: str) -> None:
        """Nothing was answered that a later one should get."""
        with self._lock:
            self._connection.execute(
                "DELETE FROM answers WHERE who = ? AND key = ? AND run = ? AND status IS NULL", (who, key, self._run)
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _now(self) -> int:
        """The time now; entries with times of another clock get it too, and are kept a day from then."""
        now_ms = self._clock_ms()
        if self._clock_ms.believed != self._believed:
            self._believed = self._clock_ms.believed
            self._connection.execute("UPDATE answers SET at_ms = ?", (now_ms,))
        self._connection.execute("UPDATE answers SET at_ms = ? WHERE at_ms > ?", (now_ms, now_ms + SLACK_MS))
        return now_ms

    def _make_room(self) -> None:
        """Whoever floods it loses the oldest; a flood does not fill the disk."""
        count = self._connection.execute("SELECT count(*) FROM answers").fetchone()[0]
        if count >= KEPT_MAX:
            self._connection.execute(
                "DELETE FROM answers WHERE (who, key) IN (SELECT who, key FROM answers ORDER BY at_ms LIMIT ?)",
                (count - KEPT_MAX + 1,),
            )


class IdempotentWrites:
    """ASGI middleware: writes with an ``Idempotency-Key`` are done once. What is asked has been read whole before."""

    def __init__(self, app: ASGIApp, answers: ResponseStore) -> None:
        self._app = app
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        given = [value for name, value in scope.get("headers", ()) if name == HEADER]
        if scope["type"] != "http" or scope["method"] not in WRITES or not given:
            await self._app(scope, receive, send)
            return
        try:
            await self._once(given, scope, receive, send)
        except ProblemError as error:
            await error.response()(scope, receive, send)

    async def _once(self, given: list[bytes], scope: Scope, receive: Receive, send: Send) -> None:
        if len(given) != 1 or _KEY.fullmatch(given[0]) is None:
            raise ProblemError(
                400, "invalid", "found an Idempotency-Key that is none; expected 1 to 200 visible ASCII characters"
            )
        body = await whole_body(receive)
        principal, key = let_in(scope), given[0].decode()
        who = "" if principal is None else principal.name
        digest = _digest(scope, body)
        known = await run_in_threadpool(self._answers.claim, who, key, digest)
        if known is not None:
            await _send(send, known, REPLAYED)
            return
        caught = _Caught()
        try:
            await self._app(scope, _replay(body, receive), caught.send)
        finally:
            answer = caught.answer
            if answer is not None and answer.status < _FAULTS:
                await run_in_threadpool(self._answers.keep, who, key, answer)
            else:
                await run_in_threadpool(self._answers.give_up, who, key)
        if answer is not None:
            await _send(send, answer)


class _Caught:
    """An answer, which is kept before it is sent."""

    def __init__(self) -> None:
        self._start: Message | None = None
        self._body = bytearray()
        self._whole = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            self._whole = not message.get("more_body", False)

    @property
    def answer(self) -> StoredResponse | None:
        if self._start is None or not self._whole:
            return None
        return StoredResponse(
            self._start["status"], [tuple(each) for each in self._start["headers"]], bytes(self._body)
        )


async def whole_body(receive: Receive) -> bytes:
    """The body of a request."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that replays the body, which has been read."""
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _send(send: Send, answer: StoredResponse, *more: tuple[bytes, bytes]) -> None:
    headers: list[Any] = [*answer.headers, *more]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _digest(scope: Scope, body: bytes) -> str:
    """A digest of the parts of a request that determine its effect."""
    match = next((value for name, value in scope["headers"] if name == b"if-match"), b"")
    asked = [scope["method"].encode(), scope["path"].encode("utf-8", "surrogatepass"), scope["query_string"], match]
    return hashlib.sha256(b"".join(b"%d:%s" % (len(each), each) for each in [*asked, body])).hexdigest()
