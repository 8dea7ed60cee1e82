"""An identity provider of this machine: keys made here, its documents over HTTP."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE = "crossline"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """``keys``: by kid, private; ``answers``: by path, what is sent in place of what is right; ``asked``: paths."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.keys: dict[str, Any] = {"one": rsa.generate_private_key(65537, 2048)}
        self.algorithms: dict[str, str] = {"one": "RS256"}
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None] | bytes] = {}
        self.asked: list[str] = []

    def add(self, kid: str, kind: str) -> None:
        made = {
            "RS256": lambda: rsa.generate_private_key(65537, 2048),
            "weak": lambda: rsa.generate_private_key(65537, 1024),  # noqa: S505 - to be refused
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }
        self.keys[kid], self.algorithms[kid] = made[kind](), "RS256" if kind == "weak" else kind

    def jwks(self) -> list[dict[str, Any]]:
        found = []
        for kid, key in self.keys.items():
            name = self.algorithms[kid]
            written = jwt.get_algorithm_by_name(name).to_jwk(key.public_key(), as_dict=True)
            found.append({**written, "kid": kid, "use": "sig", "alg": name})
        return found

    def pem(self, kid: str) -> bytes:
        pem: bytes = self.keys[kid].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(time.time())
        right = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 300, "roles": ["analyst"]}
        return {name: value for name, value in {**right, **changed}.items() if value is not None}

    def token(
        self, kid: str | None = "one", *, by: str | None = None, header: dict[str, Any] | None = None, **changed: Any
    ) -> bytes:
        """Signed with the key ``by``, or that which it names; PyJWT signs it as it would anything."""
        key = by or kid or "one"
        headers = {**({} if kid is None else {"kid": kid}), **(header or {})}
        text = json.dumps(self.claims(**changed)).encode()  # PyJWT would refuse claims that are none
        return jwt.PyJWS().encode(text, self.keys[key], self.algorithms[key], headers).encode()

    def forged(self, header: dict[str, Any], secret: bytes | None, payload: bytes | None = None) -> bytes:
        """By hand: what no library makes. ``secret``: signed by HMAC with it; None: not at all."""
        text = payload if payload is not None else json.dumps(self.claims()).encode()
        signed = f"{b64(json.dumps(header).encode())}.{b64(text)}".encode()
        signature = b"" if secret is None else hmac.new(secret, signed, hashlib.sha256).digest()
        return signed + b"." + b64(signature).encode()


@contextmanager
def issuing() -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            other = issuer.answers.get(self.path)
            if callable(other):
                other(self)
                return
            right = {
                "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": issuer.url + "/jwks"},
                "/jwks": {"keys": issuer.jwks()},
            }
            body = other if other is not None else json.dumps(right[self.path]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the library's

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer = Issuer(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
