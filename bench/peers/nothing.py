"""A server that answers every decision request at once, without reading it: ``… nothing PORT``.

It shows the cost of the load itself, which is a lower bound for every system.
"""

from __future__ import annotations

import sys
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ANSWER = {
    "schema_version": 1,
    "decision_id": "00000000-0000-5000-8000-000000000000",
    "stream": "payments",
    "decision": "allow",
    "score": 0,
    "reasons": [],
    "figures": {},
    "answered": "peek",
    "as_of": {"batch": 0, "age_ms": 0, "laid_over": 0},
    "degraded": [],
    "receipt": "0" * 64,
}


async def answer(request: Request) -> Response:
    """Read the body, and send the same answer to all."""
    await request.body()
    return Response(orjson.dumps(ANSWER), media_type="application/json")


async def ready(_: Request) -> Response:
    """It is."""
    return Response("ready")


if __name__ == "__main__":
    app = Starlette(
        routes=[Route("/readyz", ready), Route("/v1/decisions/{stream}", answer, methods=["POST"])],
    )
    quiet: Any = {"access_log": False, "log_level": "error"}
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        **quiet,
    )
