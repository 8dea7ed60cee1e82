"""Tokens: those of the provider are taken, and nothing that anybody else can make."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.errors import RetryableError
from crossline.rule_registry.sources.principals import name_problem
from crossline.serve.access import provider
from crossline.serve.access.credentials import RefusedCredentialError
from crossline.serve.access.oidc import OidcTokens, principal_name
from crossline.serve.access.provider import ProviderKeys
from crossline.serve.access.roles import ROLES, Principal
from crossline.settings.process.serve import OidcSettings

from .issuer import AUDIENCE, Issuer, b64, issuing
from .served import now_ms, served


class Clock:
    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


def settings_of(issuer: Issuer, claim: str = "roles") -> OidcSettings:
    return OidcSettings(issuer=issuer.url, audience=AUDIENCE, roles_claim=claim)


def verified(issuer: Issuer, *tokens: bytes, claim: str = "roles") -> list[Principal | str]:
    """Of each its principal, or why it was refused."""

    async def run() -> list[Principal | str]:
        oidc, found = OidcTokens(settings_of(issuer, claim)), list[Principal | str]()
        for token in tokens:
            try:
                found.append(await oidc.verify(token, now_ms()))
            except RefusedCredentialError as error:
                assert oidc.known(token, now_ms()) is None
                found.append(error.why)
        await oidc.close()
        return found

    return asyncio.run(run())


def taken(issuer: Issuer, *tokens: bytes, claim: str = "roles") -> list[bool]:
    return [isinstance(each, Principal) for each in verified(issuer, *tokens, claim=claim)]


def test_a_right_token_has_its_roles(issuer: Issuer) -> None:
    for kid, kind in (("two", "ES256"), ("three", "EdDSA")):
        issuer.add(kid, kind)
    for found in verified(issuer, issuer.token("one"), issuer.token("two"), issuer.token("three")):
        assert isinstance(found, Principal)
        assert (found.name, found.kind, found.scopes) == ("ann", "token", ROLES["analyst"])
    assert len(issuer.asked) == 2  # the document and the keys, once


def test_who_signs_with_what_everybody_knows_is_refused(issuer: Issuer) -> None:
    pem = issuer.pem("one")
    forged = [
        issuer.forged({"alg": "none", "kid": "one"}, None),
        issuer.forged({"alg": "None"}, None),
        issuer.forged({"alg": "nOnE", "kid": "one"}, b""),
        issuer.forged({"alg": "HS256", "kid": "one"}, pem),
        issuer.forged({"alg": "HS256", "kid": "one"}, pem.strip()),
        issuer.forged({"alg": "RS256", "kid": "one"}, pem),
        issuer.forged({"alg": "ES256", "kid": "one"}, pem),
        issuer.forged({"alg": ["RS256", "none"], "kid": "one"}, pem),
        issuer.forged({"kid": "one"}, pem),
        issuer.token("one")[:-4] + b"AAAA",
        issuer.token("one").rpartition(b".")[0] + b".",
        issuer.token("one").rpartition(b".")[0],
    ]
    assert taken(issuer, *forged) == [False] * len(forged)


def test_the_key_location_in_a_token_is_ignored(issuer: Issuer) -> None:
    own = Issuer(1)
    jwk = own.jwks()[0]
    tricks: list[dict[str, Any]] = [
        {"jwk": jwk},
        {"jku": issuer.url + "/evil"},
        {"x5u": issuer.url + "/evil"},
        {"x5c": [b64(own.pem("one"))]},
        {"crit": ["b64"], "b64": False},
    ]
    tokens = [own.token("one", header=each, iss=issuer.url) for each in tricks]
    kids = ["../../dev/null", "one' OR '1'='1", "one\x00", "ONE", "", "a" * 300, issuer.url + "/evil"]
    tokens += [own.token(each, by="one", iss=issuer.url) for each in kids]
    tokens += [issuer.forged({"alg": "RS256", "kid": each}, b"") for each in ({"a": 1}, 1, ["one"])]
    assert taken(issuer, *tokens) == [False] * len(tokens)
    assert "/evil" not in issuer.asked
    crit = issuer.token("one", header={"crit": ["exp"]})
    assert taken(issuer, crit, issuer.token(None)) == [False, True]  # without a kid: there is but one key


def test_a_key_signs_by_its_own_algorithm_alone(issuer: Issuer) -> None:
    issuer.add("two", "RS256")
    right = issuer.token("two")
    issuer.algorithms["two"] = "PS256"  # the provider says so, the token was signed by RS256
    assert taken(issuer, right, issuer.token("two")) == [False, True]
    issuer.add("weak", "weak")
    with pytest.warns(UserWarning, match="below"):  # PyJWT's own, where it signs
        weak = issuer.token("weak")
    assert taken(issuer, weak) == [False]


def test_times_audience_and_issuer_are_held(issuer: Issuer) -> None:
    now = int(time.time())
    wrong: list[dict[str, Any]] = [
        {"exp": now - 60},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": now + 120},
        {"iat": now + 120},
        {"iat": None},
        {"aud": "other"},
        {"aud": None},
        {"aud": ["other", "crossline2"]},
        {"aud": {"crossline": True}},
        {"iss": "https://other.example"},
        {"iss": issuer.url + "/"},
        {"iss": [issuer.url]},
        {"iss": None},
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
        {"sub": "a" * 300},
    ]
    assert taken(issuer, *[issuer.token(**each) for each in wrong]) == [False] * len(wrong)
    right: list[dict[str, Any]] = [{"exp": now - 10}, {"nbf": now + 10}, {"aud": ["other", AUDIENCE]}, {"roles": None}]
    assert taken(issuer, *[issuer.token(**each) for each in right]) == [True] * len(right)


def test_roles_that_are_none_give_nothing(issuer: Issuer) -> None:
    claims: list[Any] = [None, [], "root", ["admin", "*", "decide:*"], {"viewer": True}, [["viewer"]], 7, ["Viewer"]]
    for found in verified(issuer, *[issuer.token(roles=each) for each in claims]):
        assert isinstance(found, Principal)
        assert found.scopes == frozenset()
    for claim, more in (
        ("realm_access.roles", {"realm_access": {"roles": ["viewer"]}}),
        ("https://bank.example/roles", {"https://bank.example/roles": ["viewer"]}),
        ("a.b", {"a.b": "viewer nobody", "a": {"b": ["operator"]}}),
    ):
        (nested,) = verified(issuer, issuer.token(**more), claim=claim)
        assert isinstance(nested, Principal)
        assert nested.scopes == ROLES["viewer"]


def test_what_is_no_token_or_too_much_of_one(issuer: Issuer) -> None:
    deep = b'{"a":' + b"[" * 3_000 + b"]" * 3_000 + b"}"
    texts = [b"", b".", b"..", b"a.b.c", b"\xff.\xff.\xff", issuer.forged({"alg": "RS256", "kid": "one"}, b"", deep)]
    texts += [issuer.forged({"alg": "RS256", "kid": "one"}, b"", each) for each in (b"[]", b"null", b"{", b"\xff")]
    texts += [b64(deep).encode() + b".e30.AA", issuer.token(exp=float("inf")), issuer.token() + b".more"]
    assert taken(issuer, *texts) == [False] * len(texts)
    (found,) = verified(issuer, issuer.token(many=["x"] * 1_000, nested={"a": {"b": {"c": {}}}}))
    assert isinstance(found, Principal)


def test_two_subjects_have_two_names() -> None:
    subjects = [
        "auth0|7a",
        "auth0=7C7a",
        "ann",
        "ann ",
        " ann",
        "a b",
        "a  b",
        "änn",
        "a\u0308nn",
        "a\x00",
        "a\n",
        "\ud800",
    ]
    names = [principal_name(each) for each in subjects]
    assert len({*names}) == len(subjects)
    assert all(name is not None and name_problem(name) is None for name in names)
    assert principal_name("ann@bank.example") == "ann@bank.example"


def test_a_provider_that_is_down_leaves_the_keys_that_are_known(issuer: Issuer) -> None:
    def down(handler: BaseHTTPRequestHandler) -> None:
        handler.send_error(503)

    async def run() -> None:
        clock = Clock()
        oidc = OidcTokens(settings_of(issuer), ProviderKeys(issuer.url, clock))
        issuer.answers["/jwks"] = down
        with pytest.raises(RetryableError, match="503"):
            await oidc.verify(issuer.token(), now_ms())
        del issuer.answers["/jwks"]
        clock.s += 2
        assert (await oidc.verify(issuer.token(), now_ms())).name == "ann"
        issuer.answers["/jwks"] = down
        clock.s += provider.REFRESH_S + 1
        assert (await oidc.verify(issuer.token(sub="bob"), now_ms())).name == "bob"
        clock.s += provider.REFRESH_S * 100
        assert (await oidc.verify(issuer.token(sub="eve"), now_ms())).name == "eve"
        await oidc.close()

    asyncio.run(run())


def test_a_key_that_is_new_is_fetched_and_guesses_do_not_make_us_ask(issuer: Issuer) -> None:
    async def run() -> None:
        clock = Clock()
        oidc = OidcTokens(settings_of(issuer), ProviderKeys(issuer.url, clock))
        await oidc.verify(issuer.token(), now_ms())
        issuer.add("two", "RS256")
        clock.s += provider.UNKNOWN_S + 1
        many = [oidc.verify(issuer.token("two", sub=f"s{number}"), now_ms()) for number in range(20)]
        assert len(await asyncio.gather(*many)) == 20
        assert issuer.asked.count("/jwks") == 2
        for number in range(50):
            with pytest.raises(RefusedCredentialError):
                await oidc.verify(issuer.token(f"k{number}", by="one"), now_ms())
        assert issuer.asked.count("/jwks") == 2
        del issuer.keys["one"]  # taken back: it ends with what is fetched next
        clock.s += provider.UNKNOWN_S + 1
        with pytest.raises(RefusedCredentialError):
            await oidc.verify(issuer.token("three", by="two"), now_ms())
        with pytest.raises(RefusedCredentialError):
            await oidc.verify(issuer.forged({"alg": "RS256", "kid": "one"}, b""), now_ms())
        await oidc.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jwks", b'{"keys": []}'),
        ("/jwks", b"[]"),
        ("/jwks", b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]}'),
        ("/jwks", b" " * (provider.ANSWER_BYTES_MAX + 1)),
        ("/jwks", b"[" * 100_000),
        (
            "/.well-known/openid-configuration",
            b'{"issuer": "https://other.example", "jwks_uri": "https://other.example"}',
        ),
        ("/.well-known/openid-configuration", b'{"issuer": "%s", "jwks_uri": "http://198.51.100.1/jwks"}'),
        ("/.well-known/openid-configuration", b'{"issuer": "%s", "jwks_uri": "file:///etc/passwd"}'),
        ("/.well-known/openid-configuration", b'{"issuer": "%s"}'),
    ],
)
def test_a_provider_that_sends_something_else_is_none(issuer: Issuer, path: str, body: bytes) -> None:
    issuer.answers[path] = body.replace(b"%s", issuer.url.encode())
    with pytest.raises(RetryableError, match="cannot be fetched"):
        verified(issuer, issuer.token())


def test_a_redirect_is_not_followed(issuer: Issuer) -> None:
    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", issuer.url + "/evil")
        handler.end_headers()

    issuer.answers["/jwks"] = elsewhere
    with pytest.raises(RetryableError, match="302"):
        verified(issuer, issuer.token())
    assert "/evil" not in issuer.asked


def test_a_provider_that_drips_has_a_deadline(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not ended.wait(0.01):
                handler.wfile.write(b" ")
        except OSError:
            ended.set()

    monkeypatch.setattr(provider, "DEADLINE_S", 0.3)
    issuer.answers["/jwks"] = drip
    with pytest.raises(RetryableError, match="no whole answer"):
        verified(issuer, issuer.token())
    assert ended.wait(20)


def test_a_token_opens_what_its_roles_open(issuer: Issuer, tmp_path: Path) -> None:
    with served(tmp_path, tokens=OidcTokens(settings_of(issuer))) as api:
        token = issuer.token().decode()
        for _ in range(3):
            assert api.ask("GET", "/v1/alerts", token).json["by"] == "ann"
        assert api.ask("POST", "/v1/rules:approve", token).status == 403
        assert api.ask("GET", "/v1/alerts", issuer.token(exp=1).decode()).status == 401
        assert api.ask("GET", "/v1/alerts", api.keys["viewer"]).status == 200
        issuer.answers["/jwks"] = b"{}"
        assert api.ask("GET", "/v1/alerts", token).status == 200
