"""Bearer tokens of an identity provider (OpenID Connect): signed by it, for us, now; and whose roles they have."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import jwt

from crossline.rule_registry.sources.principals import LENGTH_MAX
from crossline.serve.access.credentials import RefusedCredentialError
from crossline.serve.access.provider import ALGORITHMS, ProviderKeys
from crossline.serve.access.roles import Principal, scopes_of_roles
from crossline.settings.process.serve import OidcSettings

LEEWAY_S = 30
# So long a token that was verified is not verified again: a key that the provider takes back ends within it.
KNOWN_MS, KNOWN_MAX = 60_000, 4_096
_KID_MAX, _ROLES_MAX = 200, 200
# What the alphabet of principals has; `=` marks what is written out, so it is written out itself.
_PLAIN = re.compile(rb"[A-Za-z0-9._+@/\\:,$'-]")
_REQUIRED = ["exp", "iat", "iss", "aud", "sub"]


class OidcTokens:
    """Verifies tokens by ``serve.oidc``.

    A token is accepted where its header names one of ``ALGORITHMS`` (signatures with a key pair; never ``none`` or
    HMAC), a key of the provider's that is for it signed it, ``iss`` and ``aud`` are those of the settings, and ``exp``,
    ``nbf`` and ``iat`` hold within 30 s. Fields of the header that name the address of a key (``jku``, ``x5u``,
    ``jwk``, ``x5c``) are ignored.

    Args:
        settings: The section.
        keys: The provider's; by default fetched from ``settings.issuer``.
        clock_s: Seconds that only grow.
    """

    def __init__(
        self,
        settings: OidcSettings,
        keys: ProviderKeys | None = None,
        clock_s: Callable[[], float] = monotonic,
    ) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._keys = keys if keys is not None else ProviderKeys(settings.issuer)
        self._known: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()

    def known(self, token: bytes, now_ms: int) -> Principal | None:
        """The principal of a token that was verified within the last minute, whatever became of the wall clock."""
        found = self._known.get(hashlib.sha256(token).digest())
        if found is None or found[1] <= self._clock_s():
            return None
        expires_ms = found[0].expires_ms
        return None if expires_ms is not None and expires_ms + LEEWAY_S * 1000 <= now_ms else found[0]

    async def verify(self, token: bytes, now_ms: int) -> Principal:
        """The principal of a token. Raises as ``claims`` does."""
        principal = self.principal(await self.claims(token))
        if principal.expires_ms is None or principal.expires_ms + LEEWAY_S * 1000 > now_ms:
            self._keep(token, principal)
        return principal

    async def claims(self, token: bytes) -> Mapping[str, Any]:
        """The claims of a token, once it is verified: signed by the provider, for this API, not expired.

        Raises RefusedCredentialError if it is not valid, RetryableError where the provider's keys were never
        to be had.
        """
        try:
            header = jwt.get_unverified_header(token)
        except Exception as error:  # noqa: BLE001 - whatever a parser makes of what anybody sent
            raise RefusedCredentialError(f"no token: {type(error).__name__}") from None
        algorithm, kid = _header(header)
        key = await self._keys.key(kid, algorithm)
        if key is None:
            raise RefusedCredentialError(f"no key of the provider has the id that it names and is for {algorithm}")
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key.public,
                algorithms=[algorithm],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=LEEWAY_S,
                options={"require": _REQUIRED, "strict_aud": False},
            )
        except Exception as error:  # noqa: BLE001 - as above
            raise RefusedCredentialError(f"{type(error).__name__}: {error}"[:200]) from None
        return claims

    async def close(self) -> None:
        """Let go of the provider."""
        await self._keys.close()

    def principal(self, claims: Mapping[str, Any]) -> Principal:
        """The principal of claims. Raises RefusedCredentialError if their ``sub`` is no name."""
        name = principal_name(claims["sub"])
        if name is None:
            raise RefusedCredentialError(f"its sub is empty, or longer than {LENGTH_MAX} characters")
        return Principal(name, scopes_of_roles(self.roles(claims)), "token", int(claims["exp"]) * 1000)

    def roles(self, claims: Mapping[str, Any]) -> list[str]:
        """The roles that claims list."""
        return _roles(claims, self._settings.roles_claim)

    def _keep(self, token: bytes, principal: Principal) -> None:
        self._known[hashlib.sha256(token).digest()] = (principal, self._clock_s() + KNOWN_MS / 1000)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)


def _header(header: Mapping[str, Any]) -> tuple[str, str | None]:
    """The algorithm and the id of the key. Raises RefusedCredentialError if it may not be so."""
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise RefusedCredentialError(f"its algorithm is {str(algorithm)[:20]!r}, which is not accepted")
    if kid is not None and (not isinstance(kid, str) or len(kid) > _KID_MAX):
        raise RefusedCredentialError("its kid is no short text")
    if "crit" in header or "b64" in header:
        raise RefusedCredentialError("it asks for an extension of its form")
    return algorithm, kid


def principal_name(subject: Any) -> str | None:
    """``sub`` in the alphabet of principals; None if it is empty or too long.

    What the alphabet lacks is written out as ``=`` and two hex digits a byte, so two subjects have two names:
    ``auth0|7a`` is ``auth0=7C7a``.

    Example:
        >>> principal_name("auth0|7a"), principal_name("ann@bank.example")
        ('auth0=7C7a', 'ann@bank.example')
    """
    if not isinstance(subject, str):
        return None
    written = subject.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if _PLAIN.fullmatch(bytes([byte])) else f"={byte:02X}" for byte in written)
    return name if 0 < len(name) <= LENGTH_MAX else None


def _roles(claims: Mapping[str, Any], claim: str) -> list[str]:
    """The roles of the claim: a list, or a text with blanks between them. ``a.b`` is a name, or ``b`` within ``a``."""
    value: Any = claims.get(claim)
    if value is None:
        value = claims
        for part in claim.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        value = value.split()
    return [each for each in value[:_ROLES_MAX] if isinstance(each, str)] if isinstance(value, list) else []
