"""The frame around a page: rail, header, who looks, what keys there are."""

from __future__ import annotations

from dataclasses import dataclass

from crossline.serve.console.accounts.preferences import Preferences


@dataclass(frozen=True, slots=True)
class NavLine:
    """A line of the rail, or of the bar at the foot. ``count``: as text; empty: none."""

    label: str
    path: str
    current: bool = False
    count: str = ""


@dataclass(frozen=True, slots=True)
class NavGroup:
    """Lines of the rail under one heading."""

    label: str
    lines: tuple[NavLine, ...]


@dataclass(frozen=True, slots=True)
class Crumb:
    """A step of the way to the page; the last has no ``path``."""

    label: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class ShortcutKey:
    """A key and what it does, as the sheet of ``?`` shows it."""

    keys: tuple[str, ...]
    does: str


@dataclass(frozen=True, slots=True)
class Who:
    """Who looks. ``initials``: two letters; ``roles``: as text; ``open``: no log-in is needed."""

    name: str
    initials: str
    roles: str
    open: bool


@dataclass(frozen=True, slots=True)
class Toast:
    """What was done. ``undo``: where a form with the token takes it back; empty: nowhere."""

    text: str
    undo: str = ""


@dataclass(frozen=True, slots=True)
class Shell:
    """All that the frame reads.

    ``title``: begins with what differs. ``assets``: the address under which they are. ``token``: of the session, for
    forms. ``nonce``: of this answer, for htmx. ``live``: whether the page may listen to events. ``scripts``: of this
    page alone, by their names in ``assets``.
    """

    title: str
    crumbs: tuple[Crumb, ...]
    groups: tuple[NavGroup, ...]
    tabs: tuple[NavLine, ...]
    who: Who
    preferred: Preferences
    pipeline: str
    assets: str
    token: str
    nonce: str
    live: bool
    search: bool
    keys: tuple[ShortcutKey, ...] = ()
    scripts: tuple[str, ...] = ()
    toast: Toast | None = None


SEARCH_KEY = ShortcutKey(("/",), "search")
GLOBAL_KEYS = (
    SEARCH_KEY,
    ShortcutKey(("?",), "keys"),
    ShortcutKey(("z",), "undo"),
    ShortcutKey(("Esc",), "close, then go back"),
)


def initials(name: str) -> str:
    """Two letters of a name.

    >>> initials("ines.vale"), initials("ann@bank.example"), initials("x")
    ('IV', 'AN', 'X')
    """
    first = [each for each in name.partition("@")[0].replace("-", ".").replace("_", ".").split(".") if each]
    letters = first[0][0] + first[1][0] if len(first) > 1 else (first or [name])[0][:2]
    return letters.upper()
