"""``/people``: who may log in, with which roles. Users are made at the command line, where passwords are asked for."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from crossline.serve.access.roles import ROLES, SCOPES
from crossline.serve.console.accounts.users import User
from crossline.serve.console.flash import saying
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.pages.people.context import PeoplePage, PersonRow, RoleRow
from crossline.serve.console.request import PageRequest, moved
from crossline.serve.http.problems import conflict, not_found

_PEOPLE = frozenset(ROLES) - {"service"}  # which is for programs


def view(asked: PageRequest) -> PeoplePage:
    """All users; with ``?user=…`` the form of one."""
    rows = tuple(_row(asked, each) for each in asked.parts.users.listed())
    wanted = asked.query.get("user", "")
    chosen = next((each for each in rows if each.name == wanted), None)
    if wanted and chosen is None:
        raise not_found("user of that name")
    oidc = asked.parts.settings.oidc
    return PeoplePage(
        shell=asked.shell("People"),
        people=rows,
        roles=tuple(
            RoleRow(name, tuple(scope for scope in SCOPES if scope in held))
            for name, held in ROLES.items()
            if name in _PEOPLE
        ),
        chosen=chosen,
        made_by=f"crossline serve users create --pipeline {asked.parts.deps.pipeline.name} --name NAME --role ROLE",
        provider="" if oidc is None or oidc.client_id is None else oidc.issuer,
    )


def set_roles(asked: PageRequest) -> Response:
    """Other roles, which hold from the next request on."""
    user, roles = _other(asked, "roles"), [each for each in asked.form.get("role", "").split("\n") if each]
    asked.parts.users.set_roles(user.name, roles)
    return saying(moved("/people"), asked, f"{user.name} is {', '.join(roles)} from now on.")


def disable(asked: PageRequest) -> Response:
    """He is logged out everywhere, and cannot log in."""
    user = _other(asked, "user")
    asked.parts.users.disable(user.name, now_ms=asked.parts.now_ms())
    asked.parts.sessions.end_all(user.name)
    text = f"{user.name} is disabled and logged out everywhere."
    return saying(moved("/people"), asked, text, f"/people/{quote(user.name, safe='')}/enable")


def enable(asked: PageRequest) -> Response:
    """He may log in again."""
    user = _other(asked, "user")
    asked.parts.users.enable(user.name)
    return saying(moved("/people"), asked, f"{user.name} may log in again.")


def _other(asked: PageRequest, what: str) -> User:
    """The user of the address. Raises ProblemError: 404 where there is none, 409 where it is who asks."""
    user = asked.parts.users.find(asked.path["name"])
    if user is None:
        raise not_found("user of that name")
    if user.name == asked.who.name:
        raise conflict(f"found your own {what}; nothing was changed. Another person with the role operator can do it")
    return user


def _row(asked: PageRequest, user: User) -> PersonRow:
    moment = asked.times.moment
    return PersonRow(
        name=user.name,
        address=f"/people/{quote(user.name, safe='')}",
        roles=user.roles,
        created=moment(user.created_ms),
        password=moment(user.password_ms),
        disabled=None if user.disabled_ms is None else moment(user.disabled_ms),
        is_self=user.name == asked.who.name,
    )


PAGE = Page(
    "people",
    (
        PageRoute("GET", "/people", view),
        PageRoute("POST", "/people/{name}/roles", set_roles),
        PageRoute("POST", "/people/{name}/disable", disable),
        PageRoute("POST", "/people/{name}/enable", enable),
    ),
    label="People",
    group="Operations",
)
