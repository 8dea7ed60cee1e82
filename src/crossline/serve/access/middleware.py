"""What every request passes before the API sees it: who asks, how often, for what, and how much is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import partial
from typing import Any

from crossline.basics.errors import RetryableError
from crossline.logs import get_logger
from crossline.serve.access.bodies import BoundedBody, checked_head, is_here
from crossline.serve.access.credentials import Credentials, RefusedCredentialError
from crossline.serve.access.keyring import KeysUnknownError
from crossline.serve.access.limits import COSTLY_BURST, COSTLY_PER_S, WRONG_BURST, WRONG_PER_S, Buckets, peer_key
from crossline.serve.access.roles import ANYBODY, Principal
from crossline.serve.access.routes import Route, RouteTable
from crossline.serve.http.problems import ProblemError, not_allowed, refusal, wrong_method
from crossline.settings.process.serve import LimitSettings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BATCH_RECORDS_MAX = 500
_NOTE_USED_S = 60.0
# Nothing of an answer is a page: no browser shall guess a type, keep it, frame it, or run what is in it.
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_HSTS = (b"strict-transport-security", b"max-age=31536000")
log = get_logger(__name__)


class Access:
    """ASGI middleware: lets a request through to ``app`` with its ``Principal`` in ``scope["state"]["principal"]``.

    401 without a credential that is good, 403 where the route table gives the principal no such route, 405 where it
    gives it the address by other methods alone, 429 past its limit, 413 past the bound of the body. ``/healthz`` and
    ``/readyz`` need no credential. HEAD is answered as GET. ``scope["state"]["route"]`` has the template of the table,
    ``scope["state"]["access"]`` this object (for ``charge``).

    Args:
        app: What answers.
        credentials: Who asks; None if the API is open (``serve.open``).
        limits: Of one principal.
        table: The routes, and the scope that each needs.

    Example:
        app = Access(app, Credentials(KeyRing(Path(serve.keys))), serve.limits)
    """

    def __init__(
        self, app: App, credentials: Credentials | None, limits: LimitSettings, table: RouteTable | None = None
    ) -> None:
        self._app = app
        self._credentials = credentials
        self._table = table if table is not None else RouteTable()
        self._body_max = limits.body_max
        self._buckets = Buckets(limits.per_s, limits.burst)
        self._wrong = Buckets(WRONG_PER_S, WRONG_BURST)
        self._costly = Buckets(COSTLY_PER_S, COSTLY_BURST)
        self._noting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or the life of the server."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:  # nothing here speaks WebSocket
            await send({"type": "websocket.close", "code": 1008})

    def charge(self, principal: Principal, requests: int) -> None:
        """Count ``requests`` more of a principal: a batch is as many as it has records.

        Raises ProblemError (429) if its limit does not allow them.
        """
        wait_s = self._buckets.take((principal.kind, principal.name), time.monotonic(), requests)
        if wait_s:
            raise too_many(wait_s)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = BoundedBody(receive, send, _headers_of(scope))
        try:
            route = self._table.find(scope["method"], scope["path"])
            credential = self._bound(scope, body, route)
            if route is None:
                self._check_method(scope, lambda each: each.need.public)
            if route is None or not route.need.public:
                principal = await self._principal(scope, credential)
                self._allow(scope, route, principal)
                body.check = partial(self._holds, principal, credential)
        except ProblemError as problem:
            await body.refuse(problem)
            return
        except Exception:  # a fault in here lets no request in, and reveals nothing
            log.exception("access could not be judged")
            await body.refuse(refusal(500, "found a fault within the API; expected none. Its log has the details"))
            return
        # The server leaves out the body of an answer to HEAD; the routes know GET alone.
        await body.run(self._app, {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope)

    def _bound(self, scope: Scope, body: BoundedBody, route: Route | None) -> bytes | None:
        """Bound the body, refuse what two readers could take for two things; gives the header Authorization."""
        head = checked_head(scope)
        batch = route is not None and route.template.endswith(":batch")
        body.bound(head, self._body_max * BATCH_RECORDS_MAX if batch else self._body_max)
        return head.credential

    async def _principal(self, scope: Scope, credential: bytes | None) -> Principal:
        credentials = self._credentials
        if credentials is None:
            _check_local(scope["headers"])
            return ANYBODY
        if credential is None:
            raise _unknown("found no credential; expected the header Authorization: Bearer KEY", given=False)
        now_ms = time.time_ns() // 1_000_000
        try:
            principal = credentials.at_once(credential, now_ms)
            if principal is not None:
                return principal
            peer = peer_key(scope["client"][0]) if scope.get("client") else ""
            wait_s = self._costly.wait(peer, time.monotonic())
            if wait_s:
                raise too_many(wait_s)
            return await self._asked(credentials, credential, now_ms, peer)
        except KeysUnknownError:  # the reason is in the log: the caller is not known yet
            text = "the key cannot be checked now; expected the file of the keys"
            raise refusal(503, text, headers={"Retry-After": "1"}) from None

    def _holds(self, principal: Principal, credential: bytes | None) -> bool:
        """Whether the credential is still good, of a request that is being answered for long."""
        now_ms = time.time_ns() // 1_000_000
        if principal.expires_ms is not None and principal.expires_ms <= now_ms:
            return False
        if principal.kind != "key" or self._credentials is None or credential is None:
            return True
        try:
            return self._credentials.at_once(credential, now_ms) is not None
        except KeysUnknownError:
            return False

    async def _asked(self, credentials: Credentials, credential: bytes, now_ms: int, peer: str) -> Principal:
        try:
            return await credentials.asked(credential, now_ms)
        except RetryableError as error:
            log.warning("a token cannot be judged now", reason=str(error))
            text = "the token cannot be checked now; expected the identity provider"
            raise refusal(503, text, headers={"Retry-After": "1"}) from None
        except RefusedCredentialError as error:
            self._costly.take(peer, time.monotonic())
            wait_s = self._wrong.take(peer, time.monotonic())
            if wait_s:
                raise too_many(wait_s) from None
            log.info("a credential was refused", peer=peer, why=error.why)
            text = "found a credential that is not good: unknown, expired or revoked; expected one that is"
            raise _unknown(text, given=True) from None

    def _allow(self, scope: Scope, route: Route | None, principal: Principal) -> None:
        wait_s = self._buckets.take((principal.kind, principal.name), time.monotonic())
        if wait_s:
            raise too_many(wait_s)
        if route is None:
            # Who may use the address by no method must not learn that it is there: that looks like one that is not.
            self._check_method(scope, lambda each: each.need.met(principal, each.stream))
        if route is None or not route.need.met(principal, route.stream):
            asked = f"{scope['method']} {scope['path'][:200]!r}"
            log.info("a request was refused", principal=principal.name, by=principal.kind, asked=asked)
            raise not_allowed()
        state = scope.setdefault("state", {})
        state["principal"], state["route"], state["access"] = principal, route.template, self

    def _check_method(self, scope: Scope, may_use: Callable[[Route], bool]) -> None:
        """Raise ProblemError (405) if the address has other methods that the caller may use."""
        routes = self._table.methods(scope["path"])
        allowed = [method for method, each in routes.items() if may_use(each)]
        if allowed and scope["method"] not in routes:
            raise wrong_method(scope["method"], allowed)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """While the server lives, the last use of keys is noted; and once more before the lifespan ends."""
        if self._credentials is not None:
            self._noting = asyncio.create_task(_note_used(self._credentials))

        async def send_noted(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown."):
                await self._close()
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        finally:
            await self._close()

    async def _close(self) -> None:
        """Let go of the keys and the provider; safe to call twice."""
        noting, self._noting = self._noting, None
        if noting is None or self._credentials is None:
            return
        noting.cancel()
        await asyncio.gather(noting, return_exceptions=True)
        await asyncio.to_thread(self._credentials.keys.note_used)
        await self._credentials.close()


async def _note_used(credentials: Credentials) -> None:
    while True:
        await asyncio.sleep(_NOTE_USED_S)
        await asyncio.to_thread(credentials.keys.note_used)


def _headers_of(scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
    return (*SECURITY_HEADERS, _HSTS) if scope.get("scheme") == "https" else SECURITY_HEADERS


def _check_local(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse pages of another origin, or host name, in a browser, which could send requests where no key is needed.

    Raises ProblemError (403) for those.
    """
    for name, value in headers:
        if name == b"host":
            if not is_here(bytes(value)):
                raise not_allowed()
        elif name == b"origin" or (name == b"sec-fetch-site" and value not in {b"same-origin", b"none"}):
            raise not_allowed()


def _unknown(text: str, *, given: bool) -> ProblemError:
    more = ', error="invalid_token"' if given else ""
    return refusal(401, text, headers={"WWW-Authenticate": f'Bearer realm="crossline"{more}'})


def too_many(wait_s: float) -> ProblemError:
    """The answer past a limit: when to come again."""
    after_s = max(1, -int(-wait_s // 1))
    text = f"found more requests than this credential or address may send; expected the next in {after_s} s"
    return refusal(429, text, headers={"Retry-After": str(after_s)})
