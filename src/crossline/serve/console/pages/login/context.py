"""What the log-in shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class LoginPage:
    """``next``: the page that was asked for; ``user``: as it was typed; ``notice``: why it did not work.

    ``provider``, ``local``: which ways there are.
    """

    TEMPLATE: ClassVar[str] = "pages/login/login.html"
    style: str
    icon: str
    pipeline: str
    next: str
    user: str
    notice: str
    provider: bool
    local: bool
    hours: int
    idle_minutes: int
