"""Pages call the API within the process: whatever a page can do the API can, with the same results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from crossline.serve.access.roles import Principal
from crossline.serve.console.dependencies import Message, Scope
from crossline.serve.console.request import PageRequest
from crossline.serve.http.problems import KINDS, Fault, ProblemError

ANY = "*"


def segment(text: str) -> str:
    """A part of an address."""
    return quote(text, safe="")


async def called(
    asked: PageRequest,
    method: str,
    route: str,
    path: Mapping[str, str] | None = None,
    body: Any = None,
    *,
    query: Mapping[str, Any] | None = None,
    match: str | None = None,
    who: Principal | None = None,
) -> Any:
    """As ``answered``, without the status."""
    return (await answered(asked, method, route, path, body, query=query, match=match, who=who))[1]


async def answered(
    asked: PageRequest,
    method: str,
    route: str,
    path: Mapping[str, str] | None = None,
    body: Any = None,
    *,
    query: Mapping[str, Any] | None = None,
    match: str | None = None,
    who: Principal | None = None,
) -> tuple[int, Any]:
    """The status of what the API answers to the caller for the page, and its JSON.

    Args:
        asked: The page's request.
        method: Of HTTP.
        route: The address as the API has it, such as ``/v1/rules/{rule_id}``.
        path: What stands in the braces.
        body: A JSON value.
        query: What stands behind the question mark.
        match: The entity tag of what was looked at.
        who: In whose name it is asked; else the caller for the page.

    Raises ProblemError if the API refuses it.
    """
    address = route
    for name, value in (path or {}).items():
        address = address.replace(f"{{{name}:path}}", value).replace(f"{{{name}}}", value)
    data = b"" if body is None else orjson.dumps(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    if match is not None:
        headers.append((b"if-match", match.encode()))
    given = {name: asked.request.scope.get(name) for name in ("client", "server", "scheme", "http_version")}
    state = {"principal": who or asked.who, "route": route}
    answer = ApiResponse(data)
    scope = scope_of(method, address, urlencode(query or {}), {**given, "headers": headers, "state": state})
    await asked.parts.api(scope, answer.receive, answer.send)
    return answer.status, answer.json()


def scope_of(method: str, address: str, query: str, more: Mapping[str, Any]) -> Scope:
    """Of a request within this process."""
    at = {"method": method, "path": address, "raw_path": quote(address).encode(), "query_string": query.encode()}
    return {"type": "http", "asgi": {"version": "3.0"}, "root_path": "", **at, **more}


class ApiResponse:
    """Hands the body in, and keeps what is answered. ``status``: 0 as long as nothing is."""

    def __init__(self, data: bytes = b"") -> None:
        self._data: bytes | None = data
        self.status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    async def receive(self) -> Message:
        """As the app asks for the body."""
        data, self._data = self._data, None
        if data is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(self, message: Message) -> None:
        """As the app answers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._headers = {name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            self._body += message.get("body", b"")

    def json(self) -> Any:
        """Its JSON. Raises ProblemError if the API refuses it."""
        body: Any = orjson.loads(bytes(self._body)) if self._body else None
        if self.status < 400:
            return body
        faults = [Fault(each["pointer"], each["found"], each["expected"], each["hint"]) for each in body["errors"]]
        kind = body["type"].removeprefix(KINDS)
        after = {"Retry-After": self._headers["retry-after"]} if "retry-after" in self._headers else {}
        raise ProblemError(self.status, kind, body["detail"], faults, after)
