"""The console as one ASGI app: assets, who comes, the page's view, its audit event, its answer."""

from __future__ import annotations

import asyncio
import inspect
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import compile_path

from crossline.basics.errors import CrosslineError
from crossline.logs import get_logger
from crossline.serve.access.bodies import BodyTooLargeError, checked_head
from crossline.serve.console.access import AUDITS_ITSELF, CHANGES_NOTHING
from crossline.serve.console.accounts.preferences import Preferences
from crossline.serve.console.assets import PREFIX, assets
from crossline.serve.console.dependencies import PageDependencies, Receive, Scope, Send
from crossline.serve.console.flash import clearing_header, message_in
from crossline.serve.console.gate import SAFE, TOKEN, Gate, LoginNeededError, Visit, login_address
from crossline.serve.console.layout.frame import Frame
from crossline.serve.console.layout.render import rendered
from crossline.serve.console.pages.index import PAGES
from crossline.serve.console.pages.page import Page, View
from crossline.serve.console.request import PageRequest, Shown
from crossline.serve.console.responses import PageBody, bounced, headers_of
from crossline.serve.http.problems import ProblemError, not_found, problem_of, refusal

FIELDS_MAX = 2_000
HOLDS_S = 1.0  # how often it is looked whether the session of a stream still holds

log = get_logger(__name__)


class Console:
    """ASGI app. ``close`` lets go of what only it has."""

    def __init__(self, parts: PageDependencies, pages: Sequence[Page] = PAGES) -> None:
        self._parts = parts
        self._pages = [each for each in pages if parts.settings.open or not each.only_open]
        self._gate = Gate(parts)
        self._assets = assets()
        self._frame = Frame(self._pages, self._assets.prefix)
        # The first way that fits answers; what it needs was looked up before, by the same address.
        self._ways = [(way, compile_path(way.path)[0]) for page in self._pages for way in page.ways]

    async def close(self) -> None:
        """Let go of the provider."""
        if self._parts.provider is not None:
            await self._parts.provider.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request."""
        nonce = secrets.token_urlsafe(18)
        body = PageBody(receive, send, headers_of(scope, nonce), scope)
        try:
            body.bound(checked_head(scope), self._parts.settings.limits.body_max)
            answer: Any = await self._asset(scope) or await self._page(scope, body, nonce)
        except LoginNeededError as needed:
            answer = _login(scope, over=needed.over)
        except BodyTooLargeError:
            await body.refuse(body.too_large(f"more than {body.bytes_max:,}"))
            return
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - any error becomes a page, and is logged
            await body.refuse(page_problem(error))
            return
        await body.run(answer, scope)

    async def _asset(self, scope: Scope) -> Response | None:
        if not scope["path"].startswith(PREFIX) or scope["method"] not in SAFE:
            return None
        self._gate.charge_asset(scope)
        scope.setdefault("state", {})["route"] = PREFIX
        found = self._assets.answer(scope["path"], Headers(scope=scope).get("accept-encoding", ""))
        if found is None:
            raise not_found("file at this address", "load the page again: the server is another version")
        return found

    async def _page(self, scope: Scope, body: PageBody, nonce: str) -> Any:
        visit = await self._gate.admit(scope)
        view, params = self._view(scope)
        request = Request({**scope, "path_params": params}, body.receive)
        form: dict[str, str] = {}
        if scope["method"] not in SAFE:
            form = await _form(request)
            if not visit.route.need.public:
                self._gate.check_token(visit, form, request.headers)
        body.check = self._holding(visit)
        asked = await self._asked(request, visit, form, nonce)
        if scope["method"] in SAFE or visit.route.template in AUDITS_ITSELF | CHANGES_NOTHING:
            return await self._answered(view, asked)
        return await self._acted(view, asked, visit)

    async def _acted(self, view: View, asked: PageRequest, visit: Visit) -> Any:
        """An act, with its event in the audit log before and after."""
        body = {name: value for name, value in asked.form.items() if name != TOKEN}
        resource = asked.request.url.path
        asking = (visit.who, "POST", f"console {visit.route.template}", resource, {"form": body} if body else None)
        async with self._parts.audit.writing(*asking) as write:
            answer = await self._answered(view, asked)
            if answer.status_code >= 400:
                write.outcome = "refused"
        return answer

    async def _answered(self, view: View, asked: PageRequest) -> Any:
        given = await view(asked) if inspect.iscoroutinefunction(view) else await asyncio.to_thread(view, asked)
        if isinstance(given, Response) or callable(given):
            return given
        shown = given if isinstance(given, Shown) else Shown(given)
        answer = HTMLResponse(await asyncio.to_thread(rendered, shown.context), shown.status, dict(shown.headers))
        if asked.toast is not None:
            answer.headers.append("set-cookie", clearing_header(self._gate))
        return answer

    async def _asked(self, request: Request, visit: Visit, form: dict[str, str], nonce: str) -> PageRequest:
        preferred = Preferences()
        if visit.token:
            preferred = await asyncio.to_thread(self._parts.preferences.of, visit.who.name)
        return PageRequest(
            request=request,
            who=visit.who,
            roles=visit.roles,
            preferred=preferred,
            parts=self._parts,
            session_id=visit.session_id,
            token=visit.token,
            nonce=nonce,
            frame=self._frame,
            gate=self._gate,
            form=form,
            toast=message_in(request, visit.token),
        )

    def _holding(self, visit: Visit) -> Callable[[], bool]:
        """Whether the session still holds, looked up once a second at most."""
        looked_s = time.monotonic()

        def holds() -> bool:
            nonlocal looked_s
            if time.monotonic() - looked_s < HOLDS_S:
                return True
            looked_s = time.monotonic()
            return self._gate.holds(visit)

        return holds

    def _view(self, scope: Scope) -> tuple[View, dict[str, str]]:
        method = "GET" if scope["method"] in SAFE else scope["method"]
        for way, pattern in self._ways:
            found = pattern.fullmatch(scope["path"]) if way.method == method else None
            if found is not None:
                return way.view, found.groupdict()
        raise not_found("page at this address")


def page_problem(error: Exception) -> ProblemError:
    """The problem that an exception is; a fault of ours gets an id, which the log has too."""
    if isinstance(error, ProblemError | CrosslineError):
        problem = problem_of(error)
        if problem.status < 500 or problem.status == 503:
            return problem
    elif isinstance(error, HTTPException):
        return refusal(error.status_code, str(error.detail))
    fault = secrets.token_hex(4)
    log.error("a page could not be made", fault=fault, exc_info=error)
    text = "The page could not be made. Other pages are not affected. Try again, or contact the operator of the server"
    return ProblemError(500, "fault", text, headers={"X-Fault": fault})


def _login(scope: Scope, *, over: bool) -> Response:
    """To the log-in; from another site first here again, since the session's cookie came not with it."""
    headers = Headers(scope=scope)
    query = scope["query_string"].decode("latin-1")
    address = scope["path"] + (f"?{query}" if query else "")
    if headers.get("hx-request") == "true":
        current = headers.get("hx-current-url", "").partition("://")[2].partition("/")
        address = login_address(f"/{current[2]}" if current[1] else "/", over=over)
        return Response(status_code=401, headers={"HX-Redirect": address})
    if scope["method"] not in SAFE:
        return RedirectResponse(login_address("/", over=over), 303)
    if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") == "navigate" and not over:
        return HTMLResponse(bounced(address))
    return RedirectResponse(login_address(address, over=over), 303)


async def _form(request: Request) -> dict[str, str]:
    """What was posted, as text by name; names that stand there twice are joined by newlines."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {"application/x-www-form-urlencoded", "multipart/form-data", ""}:
        raise refusal(422, f"found a body of type {kind[:60]!r}; expected a form")
    found: dict[str, str] = {}
    try:
        async with request.form(max_files=0, max_fields=FIELDS_MAX) as form:
            for name, value in form.multi_items():
                if isinstance(value, str):
                    found[name] = f"{found[name]}\n{value}" if name in found else value
    except (MultiPartException, FormParserError) as error:
        raise refusal(400, f"found a form that cannot be read: {str(error)[:200]}") from None
    return found
