"""Log-in with the identity provider: an authorisation code with PKCE, exchanged for a token about the person."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from crossline.basics.errors import UsageError
from crossline.io.private_database import PrivateDatabase
from crossline.serve.access.credentials import RefusedCredentialError
from crossline.serve.access.oidc import OidcTokens, principal_name
from crossline.serve.access.provider import ProviderKeys, endpoints_of, exchanged
from crossline.serve.console.accounts.sessions import new_id
from crossline.settings.process.serve import CALLBACK, OidcSettings

UNDER_WAY_MS = 10 * 60_000
UNDER_WAY_MAX = 10_000
CODE_CHARS_MAX = 2_048


@dataclass(frozen=True, slots=True)
class Begun:
    """A log-in that began. ``binding``: what the browser keeps meanwhile; ``address``: where it is sent."""

    binding: str
    address: str


@dataclass(frozen=True, slots=True)
class Person:
    """Whom the provider names. ``next``: the page that he asked for."""

    name: str
    roles: tuple[str, ...]
    next: str


class ProviderLogin:
    """Sends people to the provider, and takes them when they come back.

    The browser holds a random id (``binding``) meanwhile, so that a code which another browser was given is refused;
    ``state``, ``nonce`` and the verifier of PKCE are used once, and no longer than ten minutes.

    Args:
        settings: ``serve.oidc``, with ``client_id``.
        kept: ``console.db``.

    Raises:
        UsageError: Where the secret that the settings name is not there.
    """

    def __init__(
        self, settings: OidcSettings, kept: PrivateDatabase, environment: Mapping[str, str] = os.environ
    ) -> None:
        assert settings.client_id is not None  # noqa: S101 - its factory checked
        self._settings = settings
        self._client = settings.client_id
        self._kept = kept
        self._secret: tuple[str, str] | None = None
        if settings.client_secret_env is not None:
            secret = environment.get(settings.client_secret_env)
            if not secret:
                raise UsageError(
                    f"serve.oidc.client_secret_env: found no {settings.client_secret_env} in the environment; expected "
                    "the secret that the provider gave the console"
                )
            self._secret = (quote(self._client, safe=""), quote(secret, safe=""))  # RFC 6749, 2.3.1
        # What a token for the log-in is for is the console, not the API.
        about = settings.model_copy(update={"audience": self._client})
        self._tokens = OidcTokens(about, ProviderKeys(settings.issuer))

    async def begin(self, origin: str, next_page: str, now_ms: int) -> Begun:
        """Begin. ``origin``: of the console, as it was asked. Raises RetryableError if the provider is away."""
        ends = await endpoints_of(self._settings.issuer)
        binding, state, nonce, verifier = (new_id() for _ in range(4))
        await asyncio.to_thread(self._keep, (_digest(binding), state, nonce, verifier, next_page, now_ms))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": self._callback(origin),
            "scope": "openid profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in ends.authorization else "?"
        return Begun(binding, f"{ends.authorization}{joint}{urlencode(asked)}")

    async def come_back(self, binding: str, query: Mapping[str, str], origin: str, now_ms: int) -> Person:
        """Who comes back with the provider's answer in ``query``.

        Raises RefusedCredentialError if it is not of a log-in that this browser began, or the provider refused;
        RetryableError where the provider is away.
        """
        state, nonce, verifier, next_page = await asyncio.to_thread(self._consumed, binding, now_ms)
        if not hmac.compare_digest(query.get("state", "").encode("utf-8", "replace"), state.encode()):
            raise RefusedCredentialError("the state is another one")
        if "iss" in query and query["iss"] != self._settings.issuer:
            raise RefusedCredentialError("the answer is another provider's")
        code = query.get("code", "")
        if "error" in query or not 0 < len(code) <= CODE_CHARS_MAX:
            raise RefusedCredentialError(f"the provider gave no code: {query.get('error', 'none')[:100]!r}")
        ends = await endpoints_of(self._settings.issuer)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback(origin),
            "client_id": self._client,
            "code_verifier": verifier,
        }
        token = (await exchanged(ends.token, form, self._secret)).get("id_token")
        if not isinstance(token, str):
            raise RefusedCredentialError("the provider gave no id_token")
        claims = await self._tokens.claims(token.encode("utf-8", "replace"))
        if not isinstance(claims.get("nonce"), str) or not hmac.compare_digest(
            claims["nonce"].encode(), nonce.encode()
        ):
            raise RefusedCredentialError("the nonce is another one")
        name = principal_name(claims["sub"])
        if name is None:
            raise RefusedCredentialError("its sub is no name")
        return Person(name, tuple(self._tokens.roles(claims)), next_page)

    async def close(self) -> None:
        """Let go of the provider."""
        await self._tokens.close()

    def _callback(self, origin: str) -> str:
        return self._settings.callback or origin + CALLBACK

    def _keep(self, row: tuple[bytes, str, str, str, str, int]) -> None:
        with self._kept.writing() as db:
            db.execute("DELETE FROM logins WHERE begun_ms <= ?", (row[-1] - UNDER_WAY_MS,))
            db.execute(
                "DELETE FROM logins WHERE digest IN"
                " (SELECT digest FROM logins ORDER BY begun_ms DESC LIMIT -1 OFFSET ?)",
                (UNDER_WAY_MAX - 1,),
            )
            db.execute(
                "INSERT INTO logins (digest, state, nonce, verifier, next, begun_ms) VALUES (?, ?, ?, ?, ?, ?)", row
            )

    def _consumed(self, binding: str, now_ms: int) -> tuple[str, str, str, str]:
        """What was kept of a log-in, which is used up by that."""
        digest = _digest(binding)
        with self._kept.writing() as db:
            row = db.execute(
                "SELECT state, nonce, verifier, next, begun_ms FROM logins WHERE digest = ?", (digest,)
            ).fetchone()
            db.execute("DELETE FROM logins WHERE digest = ?", (digest,))
        if row is None or now_ms - row[4] >= UNDER_WAY_MS:
            raise RefusedCredentialError("no log-in of this browser is under way")
        return row[0], row[1], row[2], row[3]


def _digest(binding: str) -> bytes:
    return hashlib.sha256(binding.encode("utf-8", "replace")).digest()
