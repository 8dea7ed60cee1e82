"""Sends a call and has its answer, in the time that there is, over a pool of connections."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import ssl
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx

from crossline.client.calls import ApiCall
from crossline.client.deadline import Deadline, pause_s
from crossline.client.errors import BadAnswerError, ClientError, UnreachableError, api_error

# httpx loads these at its first request, which takes longer than a first decision may.
for _name in ("anyio.abc", "anyio.to_thread", "anyio.streams.tls", "anyio._backends._asyncio"):
    with suppress(ImportError):
        importlib.import_module(_name)
# httpcore asks for sniffio several times a request, and where it is not installed Python looks through all folders each
# time. None says that it is not there, at once.
if importlib.util.find_spec("sniffio") is None:
    sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]

CONNECTIONS = 100
# Below the five seconds after which most servers close an idle connection.
IDLE_S = 4.0
ANSWER_BYTES_MAX = 64 << 20
# Statuses of a proxy or load balancer without a backend, and of the API if it could not store a record.
AGAIN = frozenset({408, 425, 502, 503, 504})
_LIMITS = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=IDLE_S)
_DEFAULTS = {"limits": _LIMITS, "trust_env": False}
_OURS = frozenset({"base_url", "follow_redirects", "headers", "timeout"})


@dataclass(frozen=True, slots=True)
class Response:
    """A body with status 2xx, read."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def replayed(self) -> bool:
        """Whether the same was answered before."""
        return self.headers.get("idempotency-replayed", "").lower() == "true"


class Wire:
    """A pool of connections to one address. Belongs to the event loop in which it is first used."""

    def __init__(self, url: str, key: str | None, options: Mapping[str, Any]) -> None:
        self.url = checked_url(url)
        headers = {"User-Agent": "crossline-client/1", "Accept": "application/json", "Accept-Encoding": "identity"}
        if key is not None:
            headers["Authorization"] = f"Bearer {checked_key(key)}"
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={**options.get("headers", {}), **headers},
            timeout=None,  # noqa: S113 - a deadline over the whole is held in ``ask``
            follow_redirects=False,
            **{**_DEFAULTS, **{name: value for name, value in options.items() if name not in _OURS}},
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def ask(self, call: ApiCall, deadline: Deadline, *, decides: bool = False) -> Response:
        """The answer, retried until the deadline after a broken connection, a 503 or an answer that is no JSON.

        ``decides``: the request has its remaining time in a header, and any failure is retried. Raises UnreachableError
        after the deadline, BadAnswerError if the answer is not the API's, ApiError if the API refuses.
        """
        failed, why = 0, f"no answer within {deadline}"
        while deadline.left_s > 0:
            try:
                async with asyncio.timeout(deadline.left_s):
                    await asyncio.sleep(pause_s(failed)) if failed else None
                    response, body = await self._sent(call, deadline, decides=decides)
            except TimeoutError:
                break
            except (httpx.TransportError, OSError) as error:
                why = _text_of(error)
            else:
                status = response.status_code
                if status not in AGAIN and not (decides and status >= 500):
                    try:
                        return _read(response, body)
                    except _NoJsonError as error:
                        why = str(error)
                else:
                    why = str(api_error(status, body))
            failed += 1
        tries = f" ({failed} tries failed, the last: {why})" if failed else ""
        raise UnreachableError(f"{self.url}: no answer within {deadline}{tries}")

    async def _sent(self, call: ApiCall, deadline: Deadline, *, decides: bool) -> tuple[httpx.Response, bytes]:
        query = {**call.query, "timeout_ms": str(deadline.server_ms())} if decides else call.query
        response = await self._http.send(self.request(call, query), stream=True)
        try:
            parts, size = [], 0
            async for part in response.aiter_raw():
                size += len(part)
                if size > ANSWER_BYTES_MAX:
                    raise BadAnswerError(f"{self.url}: an answer of more than {ANSWER_BYTES_MAX >> 20} MiB")
                parts.append(part)
            return response, b"".join(parts)
        finally:
            await response.aclose()

    def request(
        self, call: ApiCall, query: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> httpx.Request:
        """The request of a call."""
        kind = {"Content-Type": "application/json"} if call.body is not None else {}
        made = self._http.headers.copy()
        made.update({**call.headers, **kind, **(headers or {})})
        url = _url(self.url + call.path, tuple(query.items()))
        return httpx.Request(call.method, url, headers=made, content=call.body)

    async def open(self, call: ApiCall, headers: Mapping[str, str]) -> httpx.Response:
        """The answer to a call of which the body is still to come; the caller closes it."""
        return await self._http.send(self.request(call, call.query, headers), stream=True)


class _NoJsonError(ClientError):
    """A truncated or garbled body: a retry may succeed."""


def _read(response: httpx.Response, body: bytes) -> Response:
    status = response.status_code
    if 300 <= status < 400:
        place = response.headers.get("location", "nowhere")
        raise BadAnswerError(
            f"{response.url} redirects to {place[:200]}; redirects are not followed: the key is for one"
        )
    if status >= 400:
        raise api_error(status, body, response.headers.get("retry-after"))
    if status == 204:
        return Response(status, None, response.headers)
    try:
        return Response(status, json.loads(body), response.headers)
    except (ValueError, RecursionError):
        raise _NoJsonError(f"{response.url} answered {status} with {body[:80]!r}; expected JSON") from None


@lru_cache(maxsize=1_024)  # decisions ask for few different ones, and reading one takes as long as sending it
def _url(place: str, query: tuple[tuple[str, str], ...]) -> httpx.URL:
    return httpx.URL(place, params=query) if query else httpx.URL(place)


def _text_of(error: Exception) -> str:
    return str(error) or type(error).__name__


def trusting(ca_file: str | Path | None) -> dict[str, Any]:
    """The option of httpx by which the server's certificate must rest on one of ``ca_file``; none without a file.

    Raises ValueError if the file is none of certificates.
    """
    if ca_file is None:
        return {}
    try:
        return {"verify": ssl.create_default_context(cafile=str(ca_file))}
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"ca_file: {ca_file} cannot be used ({error}); expected certificates in PEM form") from None


def checked_url(url: str) -> str:
    """An address that may be shown; raises ValueError where it is none, or has a password or more than a path."""
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise ValueError(f"the address of the API cannot be read: {error}") from None
    if found.scheme not in {"http", "https"} or not found.host:
        raise ValueError(f"found {url!r}; expected an address such as http://127.0.0.1:8080")
    if found.userinfo or found.query or found.fragment:
        raise ValueError(f"found more than a host and a path in the address of {found.host}; give the key as key=")
    return str(found).rstrip("/")


def checked_key(key: str) -> str:
    """Check that a key fits a header. Raises ValueError without the key in its text."""
    if not isinstance(key, str) or not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(
            "the key is empty or has blanks, line ends or other letters than ASCII in it; check how it is read"
        )
    return key
