"""What the profile shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.accounts.preferences import Preferences
from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class ProfilePage:
    """``ends``: when the session ends in any case; None without a log-in."""

    TEMPLATE: ClassVar[str] = "pages/profile/profile.html"
    shell: Shell
    preferred: Preferences
    zones: tuple[str, ...]
    scopes: tuple[tuple[str, str], ...]
    ends: Moment | None
