"""Log-in with the provider: a code of this browser's own log-in, exchanged once, for a token about now."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from pydantic import ValidationError

from crossline.basics.errors import UsageError
from crossline.settings.process.serve import OidcSettings

from ..kit import HOST, Room, Seat, room  # noqa: TID252 - the kit of the console's tests
from .provider_host import CLIENT, SECRET, Provider, providing


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as made:
        yield made


def settings(provider: Provider, **more: Any) -> OidcSettings:
    given = {"client_id": CLIENT, "client_secret_env": "CONSOLE_SECRET", **more}
    return OidcSettings(issuer=provider.issuer.url, audience="crossline", **given)


@pytest.fixture
def at(tmp_path: Path, provider: Provider) -> Iterator[Room]:
    with room(tmp_path, oidc=settings(provider), environment={"CONSOLE_SECRET": SECRET}) as made:
        yield made


def begun(seat: Seat, next_page: str = "/profile") -> str:
    answer = seat.get(f"/login/provider?{urlencode({'next': next_page})}")
    assert answer.status_code == 303
    return answer.headers["location"]


def back(seat: Seat, query: dict[str, str]) -> Any:
    """As browsers come back from another site: without the strict cookie."""
    strict = {name: value for name, value in seat.cookies.items() if name != "crossline"}
    cookies = "; ".join(f"{name}={value}" for name, value in strict.items())
    sent = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", **({"Cookie": cookies} if cookies else {})}
    return seat.get(f"/login/callback?{urlencode(query)}", sent)


def test_a_person_logs_in(at: Room, provider: Provider) -> None:
    seat = at.seat()
    assert "Log in with your organisation" in seat.get("/login").text
    assert 'name="password"' not in seat.get("/login").text  # there is no local user
    address = begun(seat, "/audit?who=x")
    asked = dict(parse_qsl(urlsplit(address).query))
    assert address.startswith(f"{provider.issuer.url}/authorize?tenant=1&response_type=code&")
    assert (asked["client_id"], asked["scope"]) == (CLIENT, "openid profile")
    assert asked["redirect_uri"] == f"http://{HOST}/login/callback"
    line = next(each for each in seat.set_cookies if each.startswith("crossline-login="))
    assert {part.strip().lower() for part in line.split(";")[1:]} == {
        "httponly",
        "max-age=600",
        "path=/login",
        "samesite=lax",
    }
    provider.claims = {"sub": "ann@bank.example", "roles": ["operator"]}
    answer = back(seat, provider.approve(address))
    assert answer.status_code == 200  # a page that asks again from here, so that the new cookie comes
    assert "url=/audit?who=x" in answer.text
    page = seat.get("/audit")
    assert page.status_code == 200
    assert "ann@bank.example" in page.text
    auth, form = provider.seen[0]
    name, _, password = base64.b64decode((auth or "").removeprefix("Basic ")).decode().partition(":")
    assert (name, password) == (CLIENT, "s3cret%20of%20the%20provider")
    assert SECRET not in str(form)
    assert [each["principal"] for each in at.audited() if each["outcome"] == "begun"] == ["ann@bank.example"]


def test_a_code_is_good_once_and_in_one_browser(at: Room, provider: Provider) -> None:
    seat, other = at.seat(), at.seat()
    query = provider.approve(begun(seat))
    assert back(other, query).status_code == 403  # which began none
    begun(other)
    assert back(other, query).status_code == 403  # which began another one
    assert "crossline" not in other.cookies
    assert back(seat, query).status_code == 200
    assert back(seat, query).status_code == 403


@pytest.mark.parametrize(
    "changed",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "crossline"},  # a token of the API
        {"iss": "http://127.0.0.1:1"},
        {"exp": 1},
        {"sub": ""},
    ],
)
def test_a_token_that_is_not_of_this_log_in_opens_nothing(
    at: Room, provider: Provider, changed: dict[str, Any]
) -> None:
    seat = at.seat()
    provider.claims = changed
    answer = back(seat, provider.approve(begun(seat)))
    assert answer.status_code == 403
    assert "Nobody is logged in. Try it again." in answer.text
    assert "crossline" not in seat.cookies
    assert [each["outcome"] for each in at.audited()] == ["begun", "refused"]


@pytest.mark.parametrize(
    "changed", [{"state": "another"}, {"error": "access_denied"}, {"code": ""}, {"iss": "https://evil.example"}]
)
def test_an_answer_that_differs_opens_nothing(at: Room, provider: Provider, changed: dict[str, str]) -> None:
    seat = at.seat()
    assert back(seat, {**provider.approve(begun(seat)), **changed}).status_code == 403
    assert provider.seen == []


def test_a_log_in_that_takes_too_long_is_over(at: Room, provider: Provider) -> None:
    seat = at.seat()
    query = provider.approve(begun(seat))
    at.clock.now_ms += 10 * 60_000
    assert back(seat, query).status_code == 403


def test_a_provider_that_is_away_is_reported(at: Room, provider: Provider) -> None:
    provider.issuer.answers["/.well-known/openid-configuration"] = b"no JSON"
    answer = at.seat().get("/login/provider")
    assert answer.status_code == 503
    assert "identity provider cannot be asked now (fault " in answer.text
    assert provider.issuer.url not in answer.text


def test_endpoints_that_others_could_read_are_refused(at: Room, provider: Provider) -> None:
    document = provider.issuer.answers["/.well-known/openid-configuration"]
    assert isinstance(document, bytes)
    wrong = document.replace(provider.issuer.url.encode() + b"/authorize", b"http://evil.example/authorize")
    provider.issuer.answers["/.well-known/openid-configuration"] = wrong
    assert at.seat().get("/login/provider").status_code == 503


def test_nobody_is_sent_elsewhere(at: Room, provider: Provider) -> None:
    seat = at.seat()
    answer = back(seat, provider.approve(begun(seat, "//evil.example")))
    assert "evil" not in answer.text
    assert "url=/" in answer.text


def test_a_secret_that_is_not_there_is_reported_at_the_start(tmp_path: Path, provider: Provider) -> None:
    with pytest.raises(UsageError, match="CONSOLE_SECRET"), room(tmp_path, oidc=settings(provider), environment={}):
        pass


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ValidationError) as refused:
        OidcSettings(issuer="https://x", audience="a", callback="http://evil.example/back")
    caption = str(refused.value)
    for found in ("begins with https://", "ends with /login/callback", "what the provider calls the console"):
        assert found in caption
