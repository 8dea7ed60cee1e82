"""``/login``, ``/logout``: a local user by his password, anybody whom the provider knows; log-out, also everywhere."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from starlette.responses import HTMLResponse, RedirectResponse, Response

from crossline.basics.errors import RetryableError
from crossline.logs import get_logger
from crossline.serve.access.credentials import RefusedCredentialError
from crossline.serve.access.roles import Principal
from crossline.serve.console.accounts.login_attempts import Tried
from crossline.serve.console.accounts.sessions import IDLE_MS, WHOLE_MS, By
from crossline.serve.console.accounts.users import User
from crossline.serve.console.gate import NOBODY, check_origin, origin_of, peer_of, safe_next
from crossline.serve.console.pages.login.context import LoginPage
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.console.responses import bounced, icon_address, style_address
from crossline.serve.http.problems import refusal

BINDING = "crossline-login"  # the cookie of a log-in with the provider that is under way
BINDING_PATH, BINDING_S = "/login", 600
_NAME_MAX = 200
# So many passwords are looked at at once: each takes a core and 64 MiB for some 50 ms, and requests go on meanwhile.
_LOOKING = asyncio.Semaphore(2)

log = get_logger(__name__)


def view(asked: PageRequest) -> Any:
    """The form; for who is logged in, the page that he wanted."""
    next_page = safe_next(asked.query.get("next", "/"))
    if asked.token:
        return moved(next_page)
    over = "You were logged out after 30 minutes without use, or 12 hours." if asked.query.get("over") == "1" else ""
    return Shown(_page(asked, next_page, notice=over))


async def log_in(asked: PageRequest) -> Any:
    """A local user, by name and password."""
    check_origin(asked.request.headers)
    next_page, name = safe_next(asked.form.get("next", "/")), asked.form.get("user", "")[:_NAME_MAX]
    if asked.parts.settings.open:
        return moved(next_page)
    now_ms, peer = asked.parts.now_ms(), peer_of(asked.request.scope)
    tried = await asyncio.to_thread(asked.parts.tries.take, name, peer, now_ms)
    user, fits = None, False
    if tried.made:
        user, fits = await _looked(asked, name)
    if user is None or not fits or user.disabled_ms is not None:
        return await _refused(asked, next_page, name, user, tried)
    await asyncio.to_thread(asked.parts.tries.right, name, peer)
    return await _logged_in(asked, user.name, "local", user.roles, next_page)


async def begin(asked: PageRequest) -> Response:
    """To the provider."""
    provider = asked.parts.provider
    if provider is None:
        raise refusal(
            404, "found no provider that people log in with; expected serve.oidc.client_id in the pipeline file"
        )
    next_page = safe_next(asked.query.get("next", "/"))
    begun = await provider.begin(origin_of(asked.request.scope), next_page, asked.parts.now_ms())
    answer = RedirectResponse(begun.address, 303)
    # It comes back from another site, with which a strict cookie would not come.
    cookie = asked.gate.cookie_of(BINDING, begun.binding, path=BINDING_PATH, lasts_s=BINDING_S, lax=True)
    answer.headers.append("set-cookie", cookie)
    return answer


async def come_back(asked: PageRequest) -> Any:
    """From the provider."""
    provider = asked.parts.provider
    if provider is None:
        raise refusal(
            404, "found no provider that people log in with; expected serve.oidc.client_id in the pipeline file"
        )
    binding = asked.request.cookies.get(BINDING, "")
    origin = origin_of(asked.request.scope)
    try:
        person = await provider.come_back(binding, asked.query, origin, asked.parts.now_ms())
    except (RefusedCredentialError, RetryableError) as error:
        log.warning("a log-in with the provider failed", reason=str(error))
        await _audited(asked, NOBODY, "login/provider", "refused", str(error))
        text = "The log-in with your organisation did not work. Nobody is logged in. Try it again."
        answer: Any = Shown(_page(asked, "/", notice=text), 403)
    else:
        answer = await _logged_in(asked, person.name, "provider", person.roles, person.next)
    if isinstance(answer, Response):
        answer.headers.append("set-cookie", asked.gate.cookie_of(BINDING, "", path=BINDING_PATH, lasts_s=0, lax=True))
    return answer


def log_out(asked: PageRequest) -> Response:
    """This browser."""
    if asked.session_id:
        asked.parts.sessions.end(asked.session_id)
    return _logged_out(asked)


def log_out_everywhere(asked: PageRequest) -> Response:
    """All browsers of who asks."""
    asked.parts.sessions.end_all(asked.who.name)
    return _logged_out(asked)


def _logged_out(asked: PageRequest) -> Response:
    answer = moved("/login")
    answer.headers.append("set-cookie", asked.gate.cookie_of(asked.gate.cookie, "", lasts_s=0))
    answer.headers["clear-site-data"] = '"cache"'
    return answer


async def _looked(asked: PageRequest, name: str) -> tuple[User | None, bool]:
    """The user of that name, and whether the password is his; an unknown name takes as long as a wrong password."""
    users, password = asked.parts.users, asked.form.get("password", "")
    user = await asyncio.to_thread(users.find, name)
    async with _LOOKING:
        fits = await asyncio.to_thread(users.passwords.fits, None if user is None else user.password, password)
        if fits and user is not None and users.passwords.is_old(user.password):
            await asyncio.to_thread(users.renew_hash, user, password)
    return user, fits


async def _refused(asked: PageRequest, next_page: str, name: str, user: User | None, tried: Tried) -> Shown:
    """One text for all failures. An unknown name is not logged: it may be a password."""
    who = NOBODY if user is None else Principal(user.name, frozenset(), "session")
    await _audited(asked, who, "login", "refused", f"{tried.left} tries left")
    if tried.left:
        tries = "1 try is" if tried.left == 1 else f"{tried.left} tries are"
        text, status, headers = (
            f"The user or the password is not right. {tries} left, then you wait 15 minutes.",
            422,
            {},
        )
    else:
        until = asked.times.moment(tried.until_ms).text
        wait_s = max(1, (tried.until_ms - asked.parts.now_ms()) // 1000)
        text = f"The user or the password is not right. You can try again at {until} UTC."
        status, headers = 429, {"Retry-After": str(wait_s)}
    return Shown(_page(asked, next_page, user=name, notice=text), status, headers)


async def _logged_in(asked: PageRequest, name: str, by: By, roles: tuple[str, ...], next_page: str) -> Response:
    """A new session, under a new id: what the browser had before is worth nothing."""
    now_ms, sessions = asked.parts.now_ms(), asked.parts.sessions
    before = asked.gate.session_id_of(asked.request.headers)
    if before:
        await asyncio.to_thread(sessions.end, before)
    who = Principal(name, frozenset(), "session")
    await _audited(asked, who, "login", "done", by)
    session_id = await asyncio.to_thread(sessions.begin, name, by, roles, now_ms)
    # From the provider one comes by a redirect, with which the new cookie would not go: the page asks again, from here.
    answer = HTMLResponse(bounced(next_page)) if by == "provider" else moved(next_page)
    answer.headers.append("set-cookie", asked.gate.cookie_of(asked.gate.cookie, session_id))
    return answer


async def _audited(asked: PageRequest, who: Principal, what: str, outcome: Any, how: str) -> None:
    """A log-in, or one that failed, in the audit log. Raises RetryableError if that takes nothing."""
    async with asked.parts.audit.writing(who, "POST", f"console /{what}", f"users/{quote(who.name)}") as write:
        write.outcome, write.after = outcome, {"how": how, "from": peer_of(asked.request.scope)}


def _page(asked: PageRequest, next_page: str, *, user: str = "", notice: str = "") -> LoginPage:
    parts = asked.parts
    return LoginPage(
        style=style_address(),
        icon=icon_address(),
        pipeline=parts.deps.config.name,
        next=next_page,
        user=user,
        notice=notice,
        provider=parts.provider is not None,
        local=parts.provider is None or bool(parts.users.listed()),
        hours=WHOLE_MS // 3_600_000,
        idle_minutes=IDLE_MS // 60_000,
    )


PAGE = Page(
    "login",
    (
        PageRoute("GET", "/login", view),
        PageRoute("POST", "/login", log_in),
        PageRoute("GET", "/login/provider", begin),
        PageRoute("GET", "/login/callback", come_back),
        PageRoute("POST", "/logout", log_out),
        PageRoute("POST", "/logout/everywhere", log_out_everywhere),
    ),
)
