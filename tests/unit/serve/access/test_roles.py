"""The route table: who may what, and that an address leads to the route that the app itself takes."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Match, Mount, Route

from crossline.serve.access.roles import (
    ANYBODY,
    ROLES,
    ROUTES,
    SCOPES,
    Principal,
    allows,
    may_see,
    scope_problem,
    scopes_of_roles,
)
from crossline.serve.access.routes import RouteTable, check_routes

from .served import Seen, small_app

TABLE = RouteTable()


def principal(*scopes: str) -> Principal:
    return Principal("p", frozenset(scopes), "key")


def test_a_stream_is_decided_by_whose_scope_names_it() -> None:
    shop = principal("decide:payments")
    assert allows(shop, "decide", "payments")
    assert allows(shop, "decide:payments")
    assert allows(shop, "decide")
    for stream in ("payment", "payments2", "Payments", "*", "payments:batch", ""):
        assert not allows(shop, "decide", stream)
    assert allows(principal("decide:*"), "decide", "anything")
    assert not allows(principal("read:alerts"), "decide")
    assert may_see(shop, "payments")
    assert not may_see(shop, "logins")
    assert may_see(principal("read:alerts"), "logins")


def test_admin_is_no_other_scope() -> None:
    assert [each for each in (*SCOPES, "decide:payments") if allows(principal("admin"), each)] == ["admin"]


def test_roles_are_made_of_scopes_that_there_are() -> None:
    assert set().union(*ROLES.values()) <= {*SCOPES, "decide:*"}
    assert not any("rules:draft" in each and "rules:approve" in each for each in ROLES.values())  # four eyes
    assert scopes_of_roles(["viewer", "nobody", "", "VIEWER", "service:payments", "service:..", "admin"]) == {
        "read:alerts",
        "decide:payments",
    }
    assert not {"admin", "rules:approve"} & ANYBODY.scopes
    assert scope_problem("decide:payments", ["payments"]) is None
    assert scope_problem("decide", ["payments"]) is not None


# Worked out from the API's contract by hand: method, address, a scope that suffices, one that does not.
CASES = [
    ("POST", "/v1/decisions/payments", "decide:payments", "decide:logins"),
    ("POST", "/v1/decisions/payments:batch", "decide:payments", "decide:logins"),
    ("GET", "/v1/decisions/0af1", "read:alerts", "hold"),
    ("GET", "/v1/decisions/0af1/receipt", "decide:payments", "write:lists"),
    ("GET", "/v1/alerts", "read:alerts", "decide:payments"),
    ("GET", "/v1/alerts/a/records", "read:records", "read:alerts"),
    ("HEAD", "/v1/alerts", "read:alerts", "admin"),
    ("GET", "/v1/entities/account_id/a/b c", "read:alerts", "admin"),
    ("POST", "/v1/holds", "hold", "read:alerts"),
    ("DELETE", "/v1/holds/7", "hold", "admin"),
    ("PUT", "/v1/labels/payments/t1", "write:labels", "decide:payments"),
    ("PATCH", "/v1/cases/7", "write:cases", "read:alerts"),
    ("PUT", "/v1/lists/blocked/DE", "write:lists", "write:labels"),
    ("DELETE", "/v1/lists/blocked/DE", "write:lists", "read:alerts"),
    ("POST", "/v1/rules:publish", "rules:draft", "rules:approve"),
    ("POST", "/v1/rules:approve", "rules:approve", "rules:draft"),
    ("POST", "/v1/rules/burst:set-status", "rules:approve", "read:alerts"),
    ("GET", "/v1/rules/burst/versions", "read:alerts", "rules:draft"),
    ("GET", "/v1/jobs/7", "rules:draft", "read:alerts"),
]


@pytest.mark.parametrize(("method", "path", "enough", "not_enough"), CASES)
def test_a_route_asks_for_its_scope(method: str, path: str, enough: str, not_enough: str) -> None:
    route = TABLE.find(method, path)
    assert route is not None
    assert route.need.met(principal(enough), route.stream)
    assert not route.need.met(principal(not_enough), route.stream)
    assert not route.need.met(principal(), route.stream)


def test_only_health_is_public() -> None:
    assert {each for each, need in ROUTES.items() if need.public} == {("GET", "/healthz"), ("GET", "/readyz")}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/healthz"),
        ("GET", "/healthz/"),
        ("GET", ""),
        ("GET", "/"),
        ("GET", "*"),
        ("POST", "/v1/decisions/"),
        ("POST", "/v1/decisions/a/b"),
        ("POST", "/v1/decisions/a:b"),
        ("POST", "/v1/decisions/:batch"),
        ("GET", "/v1/alerts/.."),
        ("GET", "/v1/alerts/\ufffd"),
        ("GET", "/v1/entities/account_id/../../audit"),
        ("GET", "/v1/entities/account_id//a"),
        ("GET", "/v1/entities/account_id/"),
        ("get", "/v1/alerts"),
    ],
)
def test_what_the_table_does_not_have_is_not_there(method: str, path: str) -> None:
    assert TABLE.find(method, path) is None


def test_an_apps_routes_without_an_entry_are_named() -> None:
    assert check_routes(small_app(Seen()).routes) == ["GET /v1/secrets"]
    inner = [Route("/alerts/{whatever}", Response(), methods=["GET"]), Route("/open", Response(), methods=["POST"])]
    assert check_routes([Mount("/v1", routes=inner)]) == ["POST /v1/open"]
    assert check_routes([Route("/v1/labels/{stream}/{record_id}", Response(), methods=["PUT"])]) != []  # takes less
    assert check_routes([Route("/v1/decisions/{name}", Response(), methods=["POST"])]) != []  # whose stream?


def test_routes_of_fastapi_are_looked_at_however_they_are_put_together() -> None:
    app, router, nested = (
        FastAPI(docs_url=None, redoc_url=None, openapi_url=None),
        APIRouter(prefix="/v1"),
        APIRouter(prefix="/alerts"),
    )

    async def answer() -> None: ...

    nested.add_api_route("/{alert_id}", answer, methods=["GET"])
    nested.add_api_route("/{alert_id}", answer, methods=["DELETE"])
    router.include_router(nested)
    router.add_api_route("/secrets", answer, methods=["GET"])
    app.include_router(router)
    app.mount("/below", Starlette(routes=[Route("/more", answer)]))
    assert check_routes(app.routes) == ["DELETE /v1/alerts/{alert_id}", "GET /v1/secrets", "GET /below/more"]


ROUTER = Starlette(
    # As an app would name them, the most literal first, which its order has to see to.
    routes=[
        Route(template, Response(), methods=[method])
        for method, template in sorted(ROUTES, key=lambda each: (each[1].count("{"), "}:" not in each[1]))
    ]
)
PARTS = st.one_of(
    st.sampled_from(sorted({part for _, template in ROUTES for part in template.split("/") if "{" not in part})),
    st.sampled_from(["payments", "payments:batch", "a:set-status", ":batch", "..", ".", "", "a b", "x:approve"]),
    st.text(max_size=4),
)


@settings(max_examples=500)
@given(st.sampled_from(sorted({method for method, _ in ROUTES})), st.lists(PARTS, max_size=5))
def test_the_table_finds_the_route_that_the_app_takes(method: str, parts: list[str]) -> None:
    """Else a scope could be asked for one route, and another one be taken."""
    path = "/" + "/".join(parts)
    scope = {"type": "http", "method": method, "path": path, "headers": [], "root_path": ""}
    taken = next((each for each in ROUTER.routes if each.matches(scope)[0] == Match.FULL), None)
    found = TABLE.find(method, path)
    if found is not None:
        assert isinstance(taken, Route)
        assert taken.path == found.template
        params = taken.matches(scope)[1]["path_params"]
        assert params.get("stream") == found.stream
