"""The console over a copy of the example: its rules, its alerts, its cases, and people of all roles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from crossline.serve.access.audit import AuditLog
from crossline.serve.access.guard import guarded
from crossline.serve.app.split import Split
from crossline.serve.console.accounts.users import UserFile
from crossline.serve.console.app import Console
from crossline.serve.console.dependencies import parts_of
from crossline.serve.http.api import create_api
from crossline.settings.process.serve import ServeSettings
from unit.serve.console.kit import FAST, Clock, Room, apart
from unit.serve.http.kit import NOW_MS, dependencies, project

PEOPLE = {"ines.vale": ("analyst",), "oda.lind": ("approver",), "olga.ops": ("operator",), "vera.lux": ("viewer",)}


@contextmanager
def working(tmp_path: Path, *, open_: bool = False, **changes: Any) -> Iterator[Room]:
    """A room whose stores have what the example left; its clock stands at the example's end."""
    folder, path = project(tmp_path), tmp_path / "serve"
    path.mkdir(mode=0o700)
    clock = Clock()
    clock.now_ms = NOW_MS
    users = str(tmp_path / "users.db")
    settings = ServeSettings(open=open_, path=str(path), users=users, keys=str(tmp_path / "keys.db"))
    audit = AuditLog(path / "audit", clock)
    deps = replace(dependencies(folder, path), audit=audit.path, now_ms=clock, **changes)
    rest = create_api(deps)
    access = guarded(rest, settings)
    made = parts_of(deps, settings, rest, audit, access.charge, {})
    local = UserFile(Path(users), FAST)
    made.sessions._users = local
    parts = replace(made, users=local)
    console = Console(parts)
    room = Room(parts, console, Split(access, console), clock, folder)
    for name, roles in PEOPLE.items() if not open_ else ():
        room.user(name, *roles)
    try:
        yield room
    finally:
        apart(console.close)
        apart(rest.state.close)


def seat(room: Room, name: str) -> Any:
    """A browser in which one of ``PEOPLE`` is logged in."""
    made = room.seat()
    assert made.log_in(name).status_code == 303
    return made
