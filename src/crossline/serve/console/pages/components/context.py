"""What the sheet of components shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.shell import Shell, Toast


@dataclass(frozen=True, slots=True)
class ComponentsPage:
    """``diff``: of (sign, text); ``columns``, ``records``: of the table; ``proof``: of (label, text, digest)."""

    TEMPLATE: ClassVar[str] = "pages/components/components.html"
    shell: Shell
    diff: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, bool], ...]
    records: tuple[tuple[str, ...], ...]
    points: tuple[float, ...]
    proof: tuple[tuple[str, str, str], ...]
    toast: Toast
