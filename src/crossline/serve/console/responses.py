"""Answers as people read them: the headers of every page, and the text where there is no page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.access.bodies import BoundedBody
from crossline.serve.console.assets import ICON, STYLE, assets
from crossline.serve.console.dependencies import Message, Scope
from crossline.serve.console.layout.render import rendered
from crossline.serve.http.problems import ProblemError

_HSTS = (b"strict-transport-security", b"max-age=31536000")
_TITLES = {
    400: "This request cannot be read",
    403: "You may not see or do this",
    404: "There is nothing here",
    409: "This cannot be done now",
    413: "This is too large",
    422: "This is not what was expected",
    429: "That was too often",
    503: "This cannot be answered now",
}


def headers_of(scope: Scope, nonce: str) -> tuple[tuple[bytes, bytes], ...]:
    """What every answer has.

    ``nonce`` marks the attributes of htmx as ours. It stands where no inline script runs in any case: a nonce is
    good for elements, and ``script-src-attr`` is about handlers in attributes.
    """
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
        f"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; script-src-attr 'nonce-{nonce}'"
    )
    found = (
        (b"cache-control", b"no-store"),
        (b"content-security-policy", policy.encode()),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
        # Not no-referrer: a browser would send `Origin: null` with our own forms.
        (b"referrer-policy", b"same-origin"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
    )
    return (*found, _HSTS) if scope.get("scheme") == "https" else found


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """What failed, what still holds, what to do. ``fault``: an id that the log has too; empty: none."""

    TEMPLATE: ClassVar[str] = "layout/error.html"
    style: str
    icon: str
    title: str
    status: int
    text: str
    fault: str


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """The same, in the place of a part of a page."""

    TEMPLATE: ClassVar[str] = "layout/error_part.html"
    title: str
    text: str
    fault: str


@dataclass(frozen=True, slots=True)
class BouncePage:
    """Asks for the same address again, from here: with a link from elsewhere, the session's cookie does not come."""

    TEMPLATE: ClassVar[str] = "layout/bounce.html"
    style: str
    icon: str
    address: str


class PageBody(BoundedBody):
    """A request of a browser, and its answer: a problem is shown as a page, or as a part of one."""

    __slots__ = ("_head", "_on_problem", "_part")

    def __init__(
        self,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
        headers: tuple[tuple[bytes, bytes], ...],
        scope: Scope,
    ) -> None:
        super().__init__(receive, send, headers)
        self._on_problem = send
        self._head = headers
        self._part = any(name == b"hx-request" and value == b"true" for name, value in scope["headers"])

    async def refuse(self, problem: ProblemError) -> None:
        """Answer with ``problem``."""
        self._started = True
        body = reason_of(problem, part=self._part).encode()
        headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        headers += [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            *self._head,
        ]
        if problem.status == 400:  # where this request ends is not sure
            headers.append((b"connection", b"close"))
        await self._on_problem({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self._on_problem({"type": "http.response.body", "body": body})


def reason_of(problem: ProblemError, *, part: bool = False) -> str:
    """A problem as HTML."""
    title = _TITLES.get(problem.status, "A fault of crossline")
    fault = problem.headers.get("X-Fault", "")
    text = sentence_of(problem.to_json()["detail"])
    if part:
        return rendered(ErrorPart(title, text, fault))
    return rendered(ErrorPage(style_address(), icon_address(), title, problem.status, text, fault))


def sentence_of(text: str) -> str:
    """A problem's text as a sentence.

    >>> sentence_of("found no user ann; expected olga")
    'Found no user ann; expected olga.'
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")


def style_address() -> str:
    """Where the style is, for pages without a frame."""
    return assets().prefix + STYLE


def icon_address() -> str:
    """Where the icon is."""
    return assets().prefix + ICON


def bounced(address: str) -> str:
    """The page that asks for ``address`` again."""
    return rendered(BouncePage(style_address(), icon_address(), address))
