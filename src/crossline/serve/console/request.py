"""A request that was let in, as views see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from crossline.serve.access.roles import Principal, allows
from crossline.serve.console.accounts.preferences import Preferences
from crossline.serve.console.dependencies import PageDependencies
from crossline.serve.console.gate import Gate
from crossline.serve.console.layout.moments import Times
from crossline.serve.console.layout.render import TemplateContext
from crossline.serve.console.layout.shell import Crumb, Shell, ShortcutKey, Toast
from crossline.serve.http.problems import invalid


@dataclass(frozen=True, slots=True)
class Shown:
    """A context with a status or headers of its own."""

    context: TemplateContext
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PageRequest:
    """Who asks for what.

    ``session_id``: of the cookie; empty without a log-in. ``token``: what forms carry. ``form``: what was
    posted. ``frame``: makes the shell of a page. ``gate``: makes cookies.
    """

    request: Request
    who: Principal
    roles: tuple[str, ...]
    preferred: Preferences
    parts: PageDependencies
    session_id: str
    token: str
    nonce: str
    frame: Any
    gate: Gate
    form: Mapping[str, str] = field(default_factory=dict)
    toast: Toast | None = None

    @cached_property
    def times(self) -> Times:
        """Makes times for who asks."""
        return Times(self.preferred.tz, self.parts.now_ms())

    @property
    def path(self) -> Mapping[str, str]:
        """The parts of the address."""
        return self.request.path_params

    @property
    def query(self) -> Mapping[str, str]:
        """What stands behind the question mark; of a name that stands there twice, the last."""
        return self.request.query_params

    @property
    def by_htmx(self) -> bool:
        """Whether a part of the page is asked for, not the whole."""
        return self.request.headers.get("hx-request") == "true"

    def allows(self, scope: str) -> bool:
        """Whether who asks has a scope of the API."""
        return allows(self.who, scope)

    def whole(self, name: str, least: int, most: int, default: int) -> int:
        """A whole number of the query. Raises ProblemError (422) for what is none."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 18 and least <= int(text) <= most):
            raise invalid(f"?{name}", repr(text[:40]), f"a whole number from {least:,} to {most:,}")
        return int(text)

    def shell(
        self,
        title: str,
        crumbs: tuple[Crumb, ...] = (),
        keys: tuple[ShortcutKey, ...] = (),
        scripts: tuple[str, ...] = (),
    ) -> Shell:
        """The frame around a page of that title; without ``crumbs`` the title is the only one."""
        made: Shell = self.frame(self, title, crumbs or (Crumb(title),), keys, scripts)
        return made


def moved(path: str, headers: Mapping[str, str] | None = None) -> Response:
    """After an act: the page to look at next. ``path``: of the console."""
    return RedirectResponse(path, 303, headers)
