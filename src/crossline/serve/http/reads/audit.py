"""``/v1/audit``: what was written through the API, by whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request

from crossline.serve.access.auditfiles import lines_of
from crossline.serve.http.deps import Dependencies, required
from crossline.serve.http.paging import LIMIT_DEFAULT, Limit
from crossline.serve.http.principals import needs
from crossline.serve.http.queries import json_answer, only_known


def audit_routes(deps: Dependencies) -> APIRouter:
    """The route of the audit log."""
    routes = APIRouter(tags=["server"])

    @routes.get("/v1/audit", openapi_extra=needs("admin"), summary="What was written, in its order")
    def audit(
        request: Request,
        after: Annotated[int, Query(ge=0, description="Number of the last line that was read.")] = 0,
        limit: Limit = LIMIT_DEFAULT,
    ) -> Any:
        """Each line names the digest of the one before it; ``crossline serve audit verify`` checks the chain."""
        only_known(request)
        path: Path = required(
            deps.audit, "audit log", "start crossline serve over a pipeline that has serve: in its file"
        )
        return json_answer({"items": list(islice(_lines(path, after), limit))})

    return routes


def _lines(path: Path, after: int) -> Iterator[Any]:
    with suppress(FileNotFoundError):  # nothing was written yet
        for number, line in lines_of(path, after):
            if line.endswith(b"\n"):
                yield {"number": number, "line": _read(line)}


def _read(line: bytes) -> Any:
    """The entry of a line; None for a line cut by a kill or a full disk, which ``verify`` reports."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
