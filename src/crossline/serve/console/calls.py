"""Asks the API within this process, for who looks at a page: what it says of itself is said once."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson

from crossline.serve.console.asked import Asked
from crossline.serve.console.parts import Message
from crossline.serve.http.problems import ProblemError


async def called(
    asked: Asked, method: str, path: str, route: str, query: str = "", body: Any = None
) -> tuple[int, Any]:
    """The status and the JSON of an answer.

    ``route``: the template of ``path``, as the API's audit log names it. Raises ProblemError with the API's own text.
    """
    data = b"" if body is None else orjson.dumps(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())] if data else []
    scope = {
        **asked.request.scope,
        "method": method,
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query.encode(),
        "headers": headers,
        "path_params": {},
        "state": {**asked.request.scope.get("state", {}), "principal": asked.who, "route": route},
    }
    found = bytearray()
    status = 500

    async def receive() -> Message:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            found.extend(message.get("body", b""))

    await asked.parts.api(scope, receive, send)
    told = orjson.loads(bytes(found)) if found else None
    if status >= 400:
        said = told if isinstance(told, dict) else {}
        raise ProblemError(
            status, str(said.get("type", "")).rpartition(":")[2], str(said.get("detail", "it was refused"))
        )
    return status, told
