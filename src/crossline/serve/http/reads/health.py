"""``/v1/health/rules``: how each rule does."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from crossline.serve.health.reader import RuleHealthReader
from crossline.serve.health.report import report_json
from crossline.serve.http.principals import needs
from crossline.serve.http.queries import json_answer, only_known


def health_routes(reader: RuleHealthReader) -> APIRouter:
    """The routes of the health of rules."""
    routes = APIRouter(tags=["rules"])

    @routes.get("/v1/health/rules", openapi_extra=needs("read:alerts"), summary="How each rule does")
    def rules(request: Request) -> Any:
        """Hits, precision with its interval, cost, overlap, drift, parity, and predictions beside what came."""
        only_known(request)
        return json_answer(report_json(reader.report()))

    return routes
