"""The keys of an identity provider: found from its discovery document, kept, and fetched again when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt

from crossline.basics.errors import RetryableError
from crossline.basics.texts.uris import is_loopback
from crossline.logs import get_logger
from crossline.serve.fault_log import TellableError, noted, with_fault

# Signatures with a key that the provider keeps to itself. None of them can be made with what it publishes.
ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_DISCOVERY = "/.well-known/openid-configuration"
DEADLINE_S = 5.0
ANSWER_BYTES_MAX, KEYS_MAX, RSA_BITS_MIN = 1 << 19, 100, 2_048
# Keys are fetched again this often, and for a key that is not known no more often than that.
REFRESH_S, UNKNOWN_S = 600.0, 30.0
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """A public key: its id, its kind (RSA, EC, OKP), the one algorithm that it is for, if it reports it."""

    kid: str | None
    kind: str
    algorithm: str | None
    public: Any

    def fits(self, algorithm: str) -> bool:
        """Whether a signature by ``algorithm`` may be of this key."""
        return self.kind == _KINDS.get(algorithm[:2]) and self.algorithm in {None, algorithm}


class ProviderKeys:
    """The keys of ``issuer``.

    Fetched by the first token, over https (http where the provider is on this machine), within 5 s and without
    following redirects; again after ten minutes, meanwhile those that are known hold; and for a key that is not known,
    at most every 30 s. A provider that is down leaves the keys that are known.

    Args:
        issuer: As tokens name it.
        clock: Seconds that only grow.
    """

    def __init__(self, issuer: str, clock: Callable[[], float] = monotonic) -> None:
        self._issuer = issuer
        self._clock = clock
        self._keys: tuple[ProviderKey, ...] = ()
        self._fetched_s = self._tried_s = float("-inf")
        self._problem = "it was not asked yet"
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, kid: str | None, algorithm: str) -> ProviderKey | None:
        """The key of that id, or the only one that fits where the token names none; None if there is none.

        Raises RetryableError if no key was ever fetched, and none can be now.
        """
        now_s = self._clock()
        found = self._known(kid, algorithm)
        if found is not None:
            if now_s - self._fetched_s > REFRESH_S and now_s - self._tried_s > UNKNOWN_S:
                self._fetch(now_s)  # in its own time
            return found
        if self._fetching is None and now_s - self._tried_s > (UNKNOWN_S if self._keys else 1.0):
            self._fetch(now_s)
        if self._fetching is not None:
            await asyncio.shield(self._fetching)
            found = self._known(kid, algorithm)
        if found is None and not self._keys:
            raise RetryableError(f"the keys of {self._issuer} cannot be fetched: {self._problem}")
        return found

    async def close(self) -> None:
        """End what is being fetched."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _known(self, kid: str | None, algorithm: str) -> ProviderKey | None:
        fit = [each for each in self._keys if each.fits(algorithm) and kid in {None, each.kid}]
        return fit[0] if len(fit) == 1 else None

    def _fetch(self, now_s: float) -> None:
        if self._fetching is None:
            self._tried_s = now_s
            self._fetching = asyncio.create_task(self._fetched())

    async def _fetched(self) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                self._keys = await _fetch_keys(self._issuer)
        except TimeoutError:
            self._problem = f"no whole answer within {DEADLINE_S:.0f} s"
        except Exception as error:  # noqa: BLE001 - whatever a peer sends, the keys that are known go on
            self._problem = f"{type(error).__name__}: {error}"[:300]
        else:
            self._problem, self._fetched_s = "", self._clock()
        finally:
            self._fetching = None
        if self._problem:
            log.warning("keys of the identity provider cannot be fetched", issuer=self._issuer, reason=self._problem)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where people log in, and where a code is exchanged for a token."""

    authorization: str
    token: str


async def endpoints_of(issuer: str) -> Endpoints:
    """From the provider's discovery document. Raises RetryableError if it cannot be fetched, or lacks the field."""
    try:
        async with asyncio.timeout(DEADLINE_S), _client() as client:
            document = await _document(client, issuer)
            found = Endpoints(
                *(checked_address(document.get(f"{name}_endpoint")) for name in ("authorization", "token"))
            )
    except (httpx.HTTPError, ValueError, TimeoutError) as error:
        fault = noted("the identity provider cannot be asked", error, issuer=issuer)
        raise TellableError(with_fault("the identity provider cannot be asked now", fault)) from None
    return found


async def exchanged(address: str, form: Mapping[str, str], secret: tuple[str, str] | None) -> Mapping[str, Any]:
    """What the token endpoint answers to ``form``. ``secret``: name and password of the client, where it has one.

    Raises RetryableError if it does not answer, or refuses; no token stands in the text.
    """
    try:
        async with asyncio.timeout(DEADLINE_S), _client() as client:
            answer = await _json(client, address, form, None if secret is None else httpx.BasicAuth(*secret))
    except (httpx.HTTPError, ValueError, TimeoutError) as error:
        fault = noted("the identity provider exchanged no code", error)
        raise TellableError(with_fault("the identity provider exchanged no code", fault)) from None
    return answer


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(follow_redirects=False, timeout=DEADLINE_S)


async def _document(client: httpx.AsyncClient, issuer: str) -> Mapping[str, Any]:
    document = await _json(client, issuer.rstrip("/") + _DISCOVERY)
    if document.get("issuer") != issuer:
        raise ValueError(f"found a document of issuer {document.get('issuer')!r}; expected {issuer!r}"[:200])
    return document


async def _fetch_keys(issuer: str) -> tuple[ProviderKey, ...]:
    """Raises ValueError if what comes is no document of a provider."""
    async with _client() as client:
        address = (await _document(client, issuer)).get("jwks_uri")
        if not isinstance(address, str):
            raise ValueError("found no jwks_uri in the discovery document")  # noqa: TRY004 - one kind for all of it
        written = (await _json(client, address)).get("keys")
    if not isinstance(written, list):
        raise ValueError("found no list of keys")  # noqa: TRY004 - as above
    keys = [key for each in written[:KEYS_MAX] if (key := _key(each)) is not None]
    if not keys:
        raise ValueError("found no key that signatures can be checked with")
    return tuple(keys)


def checked_address(address: Any) -> str:
    """``address``, if what is read there cannot be changed on the way. Raises ValueError otherwise."""
    parts = urlsplit(address if isinstance(address, str) else "")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ValueError(f"found the address {str(address)[:100]!r}; expected https://")
    return str(address)


async def _json(
    client: httpx.AsyncClient,
    address: str,
    form: Mapping[str, str] | None = None,
    auth: httpx.BasicAuth | None = None,
) -> Mapping[str, Any]:
    """The JSON object that is there, or that is answered to ``form``."""
    checked_address(address)
    found = b""
    method, headers = "GET" if form is None else "POST", {"Accept": "application/json"}
    async with client.stream(
        method, address, headers=headers, data=form, auth=auth or httpx.USE_CLIENT_DEFAULT
    ) as answer:
        if answer.status_code != httpx.codes.OK:
            raise ValueError(f"{address[:100]} answers {answer.status_code}")
        async for part in answer.aiter_bytes():
            found += part
            if len(found) > ANSWER_BYTES_MAX:
                raise ValueError(f"{address[:100]} sends more than {ANSWER_BYTES_MAX:,} bytes")
    value = httpx.Response(200, content=found).json()
    if not isinstance(value, dict):
        raise ValueError(f"{address[:100]} sends no JSON object")  # noqa: TRY004 - as above
    return value


def _key(written: Any) -> ProviderKey | None:
    """The public key; None if it is none to check signatures with."""
    if not isinstance(written, dict) or written.get("use", "sig") != "sig" or written.get("kty") not in _KINDS.values():
        return None
    if "verify" not in (written.get("key_ops") or ["verify"]):
        return None
    algorithm, kid = written.get("alg"), written.get("kid")
    if algorithm is not None and algorithm not in ALGORITHMS:
        return None
    public = {name: value for name, value in written.items() if name not in {"d", "p", "q", "dp", "dq", "qi", "oth"}}
    try:
        made = jwt.PyJWK(public).key
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        log.warning("a key of the identity provider is left out", kid=str(kid)[:100], reason=str(error))
        return None
    if written["kty"] == "RSA" and made.key_size < RSA_BITS_MIN:
        log.warning("a key of the identity provider is left out", kid=str(kid)[:100], reason=f"{made.key_size} bits")
        return None
    return ProviderKey(kid if isinstance(kid, str) else None, written["kty"], algorithm, made)
