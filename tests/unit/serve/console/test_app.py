"""One listener for programs and people: who gets what, with which headers; errors are reported in the same place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crossline.serve.access.keyfile import KeyFile
from crossline.serve.app.split import is_of_api
from crossline.serve.console.access import AUDITS_ITSELF, NEEDS, UNATTENDED
from crossline.serve.console.pages import index
from crossline.serve.console.pages.index import PAGES
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest
from crossline.serve.http.problems import conflict, invalid
from crossline.settings.process.serve import OidcSettings

from .kit import HOST, Room, room


def test_every_page_is_in_the_table_of_needs_and_the_other_way_round() -> None:
    ways = [(way.method, way.path) for page in PAGES for way in page.ways]
    assert len(ways) == len(set(ways))
    assert set(ways) == set(NEEDS)
    assert {path for _, path in ways} >= UNATTENDED | AUDITS_ITSELF
    assert {path for (_, path), need in NEEDS.items() if need.public} == {
        "/login",
        "/login/provider",
        "/login/callback",
    }
    assert not [path for _, path in ways if is_of_api(path)]


def test_the_api_is_as_it_was(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("olga.ops", "operator")
        for path in ("/v1/audit", "/v1", "/v1/nothing"):
            answer = seat.get(path)  # a session is no key
            assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
            assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert seat.get("/healthz").json() == {"status": "ok"} or seat.get("/healthz").status_code == 200
        key, _ = KeyFile(at.folder / "keys.db").create("root", ["admin"], now_ms=at.clock.now_ms, expires_ms=None)
        asked = {"Authorization": f"Bearer {key}"}
        assert at.seat().get("/v1/audit", asked).status_code == 200
        assert at.seat().get("/audit", asked).status_code == 303  # a key is no session


def test_every_page_has_the_headers(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("olga.ops", "operator")
        for path in ("/audit", "/people", "/profile", "/login", "/nothing", "/"):
            headers = seat.get(path).headers
            policy = headers["content-security-policy"]
            assert re.sub(r"'nonce-[\w-]{24}'", "NONCE", policy) == (
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
                "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; script-src-attr NONCE"
            )
            assert headers["cache-control"] == "no-store"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert "etag" not in headers
            assert "strict-transport-security" not in headers
        policies = {seat.get("/audit").headers["content-security-policy"] for _ in range(3)}
        assert len(policies) == 3


def test_over_tls_cookies_are_secure(tmp_path: Path) -> None:
    with room(tmp_path, tls={"cert_file": "c.pem", "key_file": "k.pem"}) as at:
        at.user("ines.vale")
        seat = at.seat(scheme="https")
        answer = seat.ask(
            "POST",
            "/login",
            {"Origin": f"https://{HOST}"},
            data={"user": "ines.vale", "password": "correct horse battery"},
        )
        assert answer.status_code == 303
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        assert {part.strip().lower() for part in seat.set_cookies[0].split(";")[1:]} == {
            "httponly",
            "path=/",
            "samesite=strict",
            "secure",
        }
        assert list(seat.cookies) == ["__Host-crossline"]
        assert seat.get("/profile").status_code == 200


def test_behind_a_proxy_with_tls_cookies_are_secure_too(tmp_path: Path) -> None:
    oidc = OidcSettings(
        issuer="https://id.example", audience="a", client_id="c", callback="https://x.example/login/callback"
    )
    with room(tmp_path, oidc=oidc) as at:
        assert at.console._gate.cookie == "__Host-crossline"


def test_a_link_from_elsewhere_finds_who_is_logged_in(tmp_path: Path) -> None:
    """A strict cookie does not come with it: the page asks again from here, instead of showing the log-in."""
    with room(tmp_path) as at:
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        answer = at.seat().get('/audit?who="><x&what=b', link)
        assert answer.status_code == 200
        assert '<meta http-equiv="refresh" content="0;url=/audit?who=%22%3E%3Cx&amp;what=b">' in answer.text
        assert at.seat().get("/audit", {**link, "Sec-Fetch-Site": "same-origin"}).status_code == 303


def broken(_: PageRequest) -> None:
    raise ValueError("the password is hunter2")


def taken(_: PageRequest) -> None:
    raise conflict("tomas.brandt resolved this case at 14:09")


def wrong(_: PageRequest) -> None:
    raise invalid("/until", "yesterday", "a time to come")


def with_pages(at: Room, monkeypatch: pytest.MonkeyPatch, **views: object) -> Room:
    ways = tuple(PageRoute("GET", f"/{name}", view) for name, view in views.items())  # type: ignore[arg-type]
    for way in ways:
        monkeypatch.setitem(NEEDS, ("GET", way.path), NEEDS["GET", "/profile"])
    console = type(at.console)(at.parts, (*index.PAGES, Page("broken", ways)))
    at.app._console = console
    return at


def test_what_fails_is_reported_with_an_id_that_the_log_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with room(tmp_path) as at:
        with_pages(at, monkeypatch, broken=broken, taken=taken, wrong=wrong)
        seat = at.seated("ines.vale")
        answer = seat.get("/broken")
        assert answer.status_code == 500
        fault = re.search(r"Error ([0-9a-f]{8})", answer.text)
        assert fault is not None
        assert "hunter2" not in answer.text
        caption = capsys.readouterr()
        assert fault[1] in caption.out + caption.err
        assert "hunter2" in caption.out + caption.err
        answer = seat.get("/taken")
        assert (answer.status_code, "Tomas.brandt resolved this case at 14:09." in answer.text) == (409, True)
        part = seat.get("/wrong", {"HX-Request": "true"})
        assert part.status_code == 422
        assert part.text.startswith('<div class="note err" role="alert">')
        assert "/until: found yesterday; expected a time to come." in part.text
        assert seat.get("/people").status_code == 403
        assert "which ines.vale has not, as analyst" in seat.get("/people").text


def test_acts_are_in_the_audit_log_without_secrets(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        at.user("ines.vale")
        seat = at.seated("olga.ops", "operator")
        seat.act("/profile", {"theme": "dark", "zone": "UTC"})
        seat.act("/people/ines.vale/roles", {"role": ["viewer", "approver"]})
        seat.act("/people/olga.ops/disable")
        seat.act("/logout")
        begun = {each["sequence"]: each for each in at.audited() if each["outcome"] == "begun"}
        ended = [(begun[each["begun"]], each["outcome"]) for each in at.audited() if each["outcome"] != "begun"]
        assert [(each["principal"], each["by"], each["route"], each["resource"], how) for each, how in ended] == [
            ("olga.ops", "session", "console /login", "users/olga.ops", "done"),
            ("olga.ops", "session", "console /profile", "/profile", "done"),
            ("olga.ops", "session", "console /people/{name}/roles", "/people/ines.vale/roles", "done"),
            ("olga.ops", "session", "console /people/{name}/disable", "/people/olga.ops/disable", "refused"),
            ("olga.ops", "session", "console /logout", "/logout", "done"),
        ]
        assert ended[2][0]["before"] == {"form": {"role": "viewer\napprover"}}
        text = at.parts.audit.path.read_text()
        assert not [secret for secret in ("correct horse", seat.cookies.get("crossline", "-none-")) if secret in text]
