"""A provider of this machine with which a person logs in: it gives codes, and exchanges them as RFC 7636 has it."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from serve.access.issuer import Issuer, issuing

CLIENT, SECRET = "crossline-console", "s3cret of the provider"


class Provider:
    """``asked``: what a browser was sent with; ``claims``: what differs in the token that is given."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, Any] = {}
        self.seen: list[tuple[str | None, dict[str, str]]] = []

    def approve(self, address: str) -> dict[str, str]:
        """Somebody logs in there: what the browser is sent back with."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def exchange(self, request: BaseHTTPRequestHandler) -> None:
        form = dict(parse_qsl(request.rfile.read(int(request.headers["Content-Length"])).decode()))
        self.seen.append((request.headers.get("Authorization"), form))
        asked = self.codes.pop(form["code"], None)
        challenge = (
            base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        )
        right = (
            asked is not None and challenge == asked["code_challenge"] and form["redirect_uri"] == asked["redirect_uri"]
        )
        caption: dict[str, Any] = {"error": "invalid_grant"}
        if right and asked is not None:
            claims = {"aud": CLIENT, "nonce": asked["nonce"], **self.claims}
            caption = {"id_token": self.issuer.token(**claims).decode(), "token_type": "Bearer"}
        body = json.dumps(caption).encode()
        request.send_response(200 if right else 400)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


@contextmanager
def providing() -> Iterator[Provider]:
    with issuing() as issuer:
        provider = Provider(issuer)
        document = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/jwks", "token_endpoint": f"{issuer.url}/token"}
        document["authorization_endpoint"] = f"{issuer.url}/authorize?tenant=1"
        issuer.answers["/.well-known/openid-configuration"] = json.dumps(document).encode()
        issuer.answers["/token"] = provider.exchange
        yield provider
