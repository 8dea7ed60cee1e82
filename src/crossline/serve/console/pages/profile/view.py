"""``/profile``: how a person wants the console, and what he may do there."""

from __future__ import annotations

from starlette.responses import Response

from crossline.serve.access.roles import SCOPES
from crossline.serve.console.accounts.preferences import preferences_of, zones
from crossline.serve.console.flash import saying
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.pages.profile.context import ProfilePage
from crossline.serve.console.request import PageRequest, moved


def view(asked: PageRequest) -> ProfilePage:
    """The form."""
    ends_ms = asked.who.expires_ms
    return ProfilePage(
        shell=asked.shell("Profile"),
        preferred=asked.preferred,
        zones=tuple(zones()),
        scopes=tuple((scope, does) for scope, does in SCOPES.items() if scope in asked.who.scopes),
        ends=None if ends_ms is None else asked.times.moment(ends_ms),
    )


def keep(asked: PageRequest) -> Response:
    """Keep what was chosen."""
    asked.parts.preferences.keep(asked.who.name, preferences_of(asked.form))
    return saying(moved("/profile"), asked, "The profile is kept.")


PAGE = Page("profile", (PageRoute("GET", "/profile", view), PageRoute("POST", "/profile", keep)))
