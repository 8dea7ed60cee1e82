"""Who asks, by the header ``Authorization``: keys, and tokens of the identity provider."""

from __future__ import annotations

from typing import Protocol

from crossline.serve.access.keyfile import PREFIX
from crossline.serve.access.keyring import KeyRing
from crossline.serve.access.roles import Principal

CREDENTIAL_BYTES_MAX = 8_192
_BEARER = b"bearer "
_KEY = PREFIX.encode()


class RefusedCredentialError(Exception):
    """The credential opens nothing; ``why`` is for the log alone."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Tokens(Protocol):
    """Verifies bearer tokens."""

    def known(self, token: bytes, now_ms: int) -> Principal | None:
        """The principal of a token that was verified some moments ago, without asking anybody."""
        ...

    async def verify(self, token: bytes, now_ms: int) -> Principal:
        """The principal of a token.

        Raises RefusedCredentialError; RetryableError if the provider cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


class Credentials:
    """Finds the principal of a header.

    Args:
        keys: The API keys.
        tokens: What verifies tokens; None if no provider is named: then none are accepted.
    """

    def __init__(self, keys: KeyRing, tokens: Tokens | None = None) -> None:
        self.keys = keys
        self.tokens = tokens

    def at_once(self, header: bytes, now_ms: int) -> Principal | None:
        """The principal, where no question is needed: of a key, or of a token that was verified some moments ago."""
        credential = _credential(header)
        if credential is None or len(credential) > CREDENTIAL_BYTES_MAX:
            return None
        if credential.startswith(_KEY):
            return self.keys.find(credential, now_ms)
        return None if self.tokens is None else self.tokens.known(credential, now_ms)

    async def asked(self, header: bytes, now_ms: int) -> Principal:
        """The principal of a header for which ``at_once`` has none.

        Raises RefusedCredentialError; RetryableError if the provider cannot be reached.
        """
        credential = _credential(header)
        if credential is None:
            raise RefusedCredentialError("no bearer credential")
        if len(credential) > CREDENTIAL_BYTES_MAX:
            raise RefusedCredentialError("a credential that is too long")
        if self.tokens is None or credential.startswith(_KEY):
            raise RefusedCredentialError("no key that is good")
        return await self.tokens.verify(credential, now_ms)

    async def close(self) -> None:
        """Let go of all."""
        self.keys.close()
        if self.tokens is not None:
            await self.tokens.close()


def _credential(header: bytes) -> bytes | None:
    return header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else None
