"""Admission to pages: session, address, rights, origin; forbidden requests end here."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from urllib.parse import quote

from starlette.datastructures import Headers

from crossline.serve.access.bodies import is_here
from crossline.serve.access.limits import Buckets, peer_key
from crossline.serve.access.middleware import too_many
from crossline.serve.access.roles import ANYBODY, Principal
from crossline.serve.access.routes import Route, RouteTable
from crossline.serve.console.access import NEEDS, UNATTENDED
from crossline.serve.console.accounts.sessions import is_token, new_id, token_of
from crossline.serve.console.dependencies import PageDependencies, Scope
from crossline.serve.http.problems import ProblemError, not_found, refusal

SAFE = frozenset({"GET", "HEAD"})
NOBODY = Principal("nobody", frozenset(), "session")
TOKEN = "token"  # noqa: S105 - the name of a field
_NEXT_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that was let in. ``session_id``: empty without a log-in."""

    who: Principal
    roles: tuple[str, ...]
    session_id: str
    token: str
    route: Route


class LoginNeededError(Exception):
    """No user is logged in. ``over``: one was, with this cookie."""

    def __init__(self, *, over: bool) -> None:
        super().__init__("no user is logged in")
        self.over = over


class Gate:
    """Lets requests in."""

    def __init__(self, parts: PageDependencies) -> None:
        self._parts = parts
        self._table = RouteTable(NEEDS)
        limits = parts.settings.limits
        self._peers = Buckets(limits.per_s, limits.burst)
        self._open_token_of = new_id()
        self.cookie = "__Host-crossline" if is_secure(parts) else "crossline"

    async def admit(self, scope: Scope) -> Visit:
        """Who asks for what.

        Raises LoginNeededError if no user is logged in; ProblemError: 403 where he may not, 404 where there is
        nothing, 429 past his limit.
        """
        headers = Headers(scope=scope)
        self.check_host(headers)
        if scope["method"] not in SAFE:
            check_origin(headers)
        route = self._table.find(scope["method"], scope["path"])
        if self._parts.settings.open:
            self._parts.charge(ANYBODY, 1)
            token = token_of(self._open_token_of)
            return self._allowed(scope, route, Visit(ANYBODY, (), "", token, route or _NOWHERE))
        given = self.session_id_of(headers)
        session = None
        if given:
            used = route is None or route.template not in UNATTENDED
            session = await asyncio.to_thread(self._parts.sessions.find, given, self._parts.now_ms(), used=used)
        if session is None:
            self._charge_peer(scope)
            if route is not None and route.need.public:
                return Visit(NOBODY, (), "", "", route)
            raise LoginNeededError(over=bool(given))
        self._parts.charge(session.principal, 1)
        visit = Visit(session.principal, session.roles, given, token_of(given), route or _NOWHERE)
        return self._allowed(scope, route, visit)

    def charge_asset(self, scope: Scope) -> None:
        """Count a request for a style, a script or a font."""
        self._charge_peer(scope)

    def check_token(self, visit: Visit, form: Mapping[str, str], headers: Headers) -> None:
        """Raise ProblemError (403) if a form is not of that session."""
        given = headers.get("x-crossline-token") or form.get(TOKEN, "")
        if visit.session_id:
            right = is_token(given, visit.session_id)
        else:
            right = bool(visit.token) and hmac.compare_digest(given.encode("utf-8", "replace"), visit.token.encode())
        if not right:
            raise refusal(403, "found a form of another session; nothing was done. Load the page again, and repeat it")

    def holds(self, visit: Visit) -> bool:
        """Whether a session still holds, of an answer that goes on for long."""
        if not visit.session_id:
            return True
        return self._parts.sessions.find(visit.session_id, self._parts.now_ms(), used=False) is not None

    def session_id_of(self, headers: Headers) -> str:
        """The id of the cookie; empty if there is none, or there are two: one of them is not ours."""
        found = set()
        for line in headers.getlist("cookie"):
            for part in line.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self.cookie:
                    found.add(value)
        return found.pop() if len(found) == 1 else ""

    def cookie_of(
        self, name: str, value: str, *, path: str = "/", lasts_s: int | None = None, lax: bool = False
    ) -> str:
        """A header Set-Cookie."""
        made = SimpleCookie()
        made[name] = value
        made[name]["path"], made[name]["httponly"] = path, True
        made[name]["samesite"] = "Lax" if lax else "Strict"
        if is_secure(self._parts):
            made[name]["secure"] = True
        if lasts_s is not None:
            made[name]["max-age"] = str(lasts_s)
        return made[name].OutputString()

    def check_host(self, headers: Headers) -> None:
        """Without log-ins, only this machine's names are answered (DNS rebinding). Raises ProblemError (403)."""
        if self._parts.settings.open and not is_here(headers.get("host", "").encode("latin-1", "replace")):
            raise refusal(403, "found a host that is not this machine; expected 127.0.0.1, [::1] or localhost")

    def _charge_peer(self, scope: Scope) -> None:
        wait_s = self._peers.take(peer_of(scope), time.monotonic())
        if wait_s:
            raise too_many(wait_s)

    @staticmethod
    def _allowed(scope: Scope, route: Route | None, visit: Visit) -> Visit:
        if route is None:
            raise not_found("page at this address")
        if not route.need.met(visit.who, route.stream):
            roles = f"as {', '.join(visit.roles)}" if visit.roles else "without a role"
            raise refusal(
                403, f"This needs the scope {' or '.join(route.need.scopes)}, which {visit.who.name} has not, {roles}"
            )
        scope.setdefault("state", {})["route"] = route.template
        return visit


_NOWHERE = Route("", NEEDS["GET", "/"])


def is_secure(parts: PageDependencies) -> bool:
    """Whether browsers come by TLS: the console's own, or that of a proxy, by ``oidc.callback``."""
    oidc = parts.settings.oidc
    return parts.settings.tls is not None or (oidc is not None and (oidc.callback or "").startswith("https://"))


def check_origin(headers: Headers) -> None:
    """Raise ProblemError (403) if a page of another or of an unknown origin sent it."""
    origin, site, host = headers.get("origin"), headers.get("sec-fetch-site"), headers.get("host", "")
    from_here = origin is not None and origin.partition("://")[2] == host and bool(host)
    if (origin is None and site is None) or (origin is not None and not from_here) or site not in {None, "same-origin"}:
        raise refusal(403, "found a form of another page; nothing was done. Expected one of the console itself")


def safe_next(text: str) -> str:
    """A page of the console to go to after the log-in; whatever else is given, the first one.

    >>> safe_next("/cases/C-2041?alert=7"), safe_next("//evil.example"), safe_next("https://evil.example")
    ('/cases/C-2041?alert=7', '/', '/')
    """
    plain = text.isascii() and text.isprintable() and "\\" not in text and " " not in text
    inside = text.startswith("/") and not text.startswith(("//", "/login", "/logout", "/v1/"))
    return text if plain and inside and len(text) <= _NEXT_MAX else "/"


def login_address(next_page: str, *, over: bool) -> str:
    """The log-in, with the page that was asked for."""
    return f"/login?next={quote(safe_next(next_page), safe='/')}" + ("&over=1" if over else "")


def peer_of(scope: Scope) -> str:
    """The address that asks, as its requests are counted."""
    return peer_key(scope["client"][0]) if scope.get("client") else ""


def origin_of(scope: Scope) -> str:
    """The console's origin, as it was asked. Raises ProblemError (400) without a host."""
    host = Headers(scope=scope).get("host", "")
    if not host or not all(letter.isalnum() or letter in ".-:[]" for letter in host) or not host.isascii():
        raise ProblemError(400, "malformed", "found no plain header Host; expected the console's name")
    return f"{scope.get('scheme', 'http')}://{host}"
