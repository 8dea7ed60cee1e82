"""The client of a REST catalog, against answers of a server: which errors may pass, and that none has the token."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from crossline.basics.errors import CrosslineError, StateError, UsageError
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.catalogs.rest_catalog import rest_catalog
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.maintenance.expiry import plain_path
from crossline.settings.process.lake import RestCatalogSettings
from unit.lake.lake_kit import SpooledPipeline

TOKEN = "s3cret-token"


class Scripted(BaseHTTPRequestHandler):
    """Answers with ``status`` and ``body``; the token that it got is in the body in the place of ``TOKEN``."""

    status, body = 200, "{}"
    waits = threading.Event()
    seen: list[tuple[str, str | None]] = []  # noqa: RUF012 - made anew for each server

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization")))
        self.waits.wait(10)
        body = self.body.replace("TOKEN", (self.headers.get("Authorization") or "").removeprefix("Bearer ")).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's
        pass


@contextmanager
def answering(status: int = 200, body: str = "{}", *, at_once: bool = True) -> Iterator[tuple[str, Scripted]]:
    waits = threading.Event()
    if at_once:
        waits.set()
    given = {"status": status, "body": body, "waits": waits, "seen": []}
    handler = type("Handler", (Scripted,), given)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", handler  # type: ignore[misc]
        finally:
            waits.set()
            server.shutdown()
            thread.join()


def refused(status: int, text: str) -> str:
    return json.dumps({"error": {"message": text, "type": "Refused", "code": status}})


@pytest.mark.parametrize(
    ("status", "body", "kind", "expected"),
    [
        (401, refused(401, "not TOKEN"), StateError, "refuses access: Refused: not ***; expected a token"),
        (403, refused(403, "not for you"), StateError, "refuses access: Refused: not for you; expected a token"),
        (404, "<html>TOKEN</html>", StateError, "cannot be used: RESTError 404: "),
        (200, "<html>TOKEN", StateError, "expected a server of Iceberg's REST protocol at this address, without /v1"),
        (500, refused(500, "TOKEN"), LakeUnavailableError, "cannot answer now: Refused: ***"),
        (503, "TOKEN", LakeUnavailableError, "cannot answer now: "),
        (429, refused(429, "slowly"), LakeUnavailableError, "cannot answer now: Refused: slowly"),
    ],
)
def test_errors_name_the_server_and_no_token(status: int, body: str, kind: type[CrosslineError], expected: str) -> None:
    with answering(status, body) as (uri, _):
        settings = RestCatalogSettings(kind="rest", uri=uri, token_env="LAKE_TOKEN")
        with pytest.raises(kind) as caught:
            rest_catalog("lake", settings, {}, {"LAKE_TOKEN": TOKEN})
    assert str(caught.value).startswith(f"the REST catalog at {uri} ")
    assert expected in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_token_is_sent_and_without_one_none_is() -> None:
    with answering() as (uri, server):
        with closing(rest_catalog("lake", RestCatalogSettings(kind="rest", uri=uri), {"warehouse": "file:///x"}, {})):
            pass
        named = RestCatalogSettings(kind="rest", uri=uri, token_env="LAKE_TOKEN", warehouse="risk")
        with closing(rest_catalog("lake", named, {"warehouse": "file:///x"}, {"LAKE_TOKEN": f"{TOKEN}\n"})):
            pass
    (first, no_token), (second, token) = server.seen
    assert (no_token, token) == (None, f"Bearer {TOKEN}")
    assert parse_qs(urlsplit(first).query) == {}  # a path of ours is no warehouse's name
    assert parse_qs(urlsplit(second).query) == {"warehouse": ["risk"]}


def test_a_token_that_is_missing_is_named() -> None:
    settings = RestCatalogSettings(kind="rest", uri="http://127.0.0.1:1", token_env="LAKE_TOKEN")
    for environment in ({}, {"LAKE_TOKEN": " "}):
        with pytest.raises(UsageError, match="environment variable LAKE_TOKEN, which token_env names, is not set"):
            rest_catalog("lake", settings, {}, environment)


def test_a_server_that_says_nothing_is_not_waited_for_without_end() -> None:
    with answering(at_once=False) as (uri, _), pytest.raises(LakeUnavailableError) as caught:
        rest_catalog("lake", RestCatalogSettings(kind="rest", uri=uri), {}, {}, answer_s=0.05)
    assert f"the REST catalog at {uri} does not answer: nothing came within 0.05 s" in str(caught.value)


def test_a_namespace_that_cannot_be_made_is_no_fault_of_another_kind(tmp_path: Path) -> None:
    """The server has a configuration, and answers all else with the same text."""
    pipeline = SpooledPipeline(tmp_path)
    with answering(200, "{}") as (uri, _):
        pipeline.text = pipeline.text.replace("lake: {", f"lake: {{catalog: {{kind: rest, uri: '{uri}'}}, ")
        with pytest.raises(StateError, match="cannot be used: 1 validation error for NamespaceResponse"):
            open_lake(pipeline.config)


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("file:///w/a.avro", "/w/a.avro"),
        ("file:/w/a.avro", "/w/a.avro"),
        ("/w/a:b", "/w/a:b"),
        ("s3a://b/k", "s3://b/k"),
        ("s3://b/k", "s3://b/k"),
        ("gs://b/k", "gs://b/k"),
    ],
)
def test_a_path_is_the_same_however_a_writer_spells_it(path: str, plain: str) -> None:
    assert plain_path(path) == plain
