"""A method that an address does not support: 405 with those that the caller may use there, 403 if it may use none."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from starlette.routing import compile_path

from crossline.serve.access.credentials import Credentials
from crossline.serve.access.keyfile import KeyFile
from crossline.serve.access.keyring import KeyRing
from crossline.serve.access.middleware import Access
from crossline.serve.access.roles import ROUTES, SCOPES, Need, Principal
from crossline.settings.process.serve import LimitSettings

from .served import Served, now_ms, served

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"]
SCOPES_OF = {"all": [*SCOPES, "decide:*"], "shop": ["decide:payments"], "viewer": ["read:alerts"], "holder": ["hold"]}
TEMPLATES = {template: compile_path(template)[0] for _, template in ROUTES}


def address(template: str) -> str:
    return re.sub(r"\{(\w+)(:path)?\}", lambda found: "payments" if found[1] == "stream" else "17", template)


PATHS = sorted({address(template) for template in TEMPLATES})


def supported(path: str) -> dict[str, tuple[Need, str | None]]:
    """What the table has for ``path``, by method: what it needs, and its stream."""
    found = {}
    for (method, template), need in ROUTES.items():
        if match := TEMPLATES[template].fullmatch(path):
            found[method] = need, match.groupdict().get("stream")
    return {**found, **({"HEAD": found["GET"]} if "GET" in found and path != "/v1/events" else {})}


class Asking:
    """Requests to an API that answers 200 to whatever ``Access`` lets through."""

    def __init__(self, folder: Path) -> None:
        file = KeyFile(folder / "keys.db")
        made = {
            name: file.create(name, scopes, now_ms=now_ms(), expires_ms=None)[0] for name, scopes in SCOPES_OF.items()
        }
        self.keys: dict[str, str | None] = {**made, "nobody": None}
        limits = LimitSettings(per_s=100_000, burst=100_000)
        app: Any = Access(Response(), Credentials(KeyRing(file.path)), limits)
        self.runner = asyncio.Runner()
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api")

    def __call__(self, method: str, path: str, who: str) -> httpx.Response:
        key = self.keys[who]
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return self.runner.run(self.client.request(method, path, headers=headers))


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    asking = Asking(tmp_path_factory.mktemp("methods"))
    yield asking
    asking.runner.run(asking.client.aclose())
    asking.runner.close()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.mark.parametrize("who", SCOPES_OF)
def test_with_a_credential_it_is_405_with_what_the_caller_may_use_there(ask: Asking, who: str) -> None:
    caller = Principal(who, frozenset(SCOPES_OF[who]), "key")
    nowhere = ask("GET", "/v1/nowhere", who)
    assert nowhere.status_code == 403
    for path in PATHS:
        there = supported(path)
        may = sorted(method for method, (need, stream) in there.items() if need.met(caller, stream))
        for method in METHODS:
            answer = ask(method, path, who)
            if method in there:
                assert answer.status_code == (200 if method in may else 403), (method, path)
            elif may:
                assert (answer.status_code, answer.headers["allow"]) == (405, ", ".join(may)), (method, path)
            else:  # as where nothing is
                assert (answer.status_code, answer.headers) == (403, nowhere.headers), (method, path)
                assert answer.content == (b"" if method == "HEAD" else nowhere.content)


def test_without_a_credential_it_is_401_but_where_none_is_needed(ask: Asking) -> None:
    for path in PATHS:
        public = path in {"/healthz", "/readyz"}
        for method in METHODS:
            answer = ask(method, path, "nobody")
            if not public:
                assert answer.status_code == 401, (method, path)
            elif method in {"GET", "HEAD"}:
                assert answer.status_code == 200
            else:
                assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_the_problem_names_what_was_found_and_what_is_expected(ask: Asking) -> None:
    answer = ask("PUT", "/v1/decisions/payments", "shop")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:crossline:problem:method",
        "title": "Method Not Allowed",
        "status": 405,
        "detail": "found the method PUT; expected one that this address supports: GET, HEAD, POST",
        "errors": [],
    }


def test_a_name_that_no_stream_can_have_is_no_wrong_method(ask: Asking) -> None:
    for name in ("no%20stream", "%7B%7D", "a:b"):
        assert ask("POST", f"/v1/decisions/{name}", "all").status_code == 403
        assert ask("PUT", f"/v1/decisions/{name}", "viewer").headers["allow"] == "GET, HEAD"


def test_head_is_get_without_the_body(api: Served) -> None:
    """Over a connection, as the server is what leaves out the body."""
    for path in ("/v1/alerts", "/healthz", "/v1/nowhere"):
        whole, head = (api.ask(method, path, api.keys["viewer"]) for method in ("GET", "HEAD"))
        assert whole.body
        assert (head.status, head.body) == (whole.status, b"")
        assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}
    assert api.ask("HEAD", "/v1/rules:approve", api.keys["viewer"]).status == 403
    endless = api.ask("HEAD", "/v1/events", api.keys["viewer"])
    assert (endless.status, endless.headers["allow"]) == (405, "GET")
