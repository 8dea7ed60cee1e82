"""Two users for the demo's console: an author cannot approve his own rule."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

# Neither holds all: who writes rules does not approve, as in a bank.
PEOPLE: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "ines.vale": (("analyst",), "works the queue, holds keys, writes rules"),
        "oda.lind": (("approver", "operator"), "approves of rules; lists, audit trail, dead letters"),
    }
)
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # no two of them look alike
_GROUPS, _GROUP = 4, 4  # 79 bits


def make_people(file: Path) -> dict[str, str]:
    """Make the users in ``file``; gives each one's password, of which the file has no more than a hash."""
    from crossline.serve.console.accounts.users import UserFile

    users, made = UserFile(file), {}
    for name, (roles, _) in PEOPLE.items():
        made[name] = new_password()
        users.create(name, roles, made[name], now_ms=time.time_ns() // 1_000_000)
    return made


def new_password() -> str:
    """A password to read off a screen, of 79 random bits."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(_GROUP)) for _ in range(_GROUPS))


def accounts_text(passwords: Mapping[str, str]) -> str:
    """Who may log in with what, a line each, to read."""
    lines = [f"  {name:<12}{passwords[name]:<22}{', '.join(roles)}: {does}" for name, (roles, does) in PEOPLE.items()]
    return "\n".join(lines)
