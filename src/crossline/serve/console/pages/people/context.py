"""What the page of people shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class PersonRow:
    """A local user. ``is_self``: it is who looks, who cannot lock himself out. ``disabled``: since when."""

    name: str
    address: str
    roles: tuple[str, ...]
    created: Moment
    password: Moment
    disabled: Moment | None
    is_self: bool


@dataclass(frozen=True, slots=True)
class RoleRow:
    """A role, and what it lets its holder do."""

    name: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeoplePage:
    """``chosen``: the user whose roles are being changed; None: no user. ``made_by``: the command that makes users."""

    TEMPLATE: ClassVar[str] = "pages/people/people.html"
    shell: Shell
    people: tuple[PersonRow, ...]
    roles: tuple[RoleRow, ...]
    chosen: PersonRow | None
    made_by: str
    provider: str
