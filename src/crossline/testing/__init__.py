"""For tests of rules: a tester that takes records and holds the hits against those that are expected.

Where crossline is installed, pytest has the fixture ``rule_tester`` (see ``crossline.testing.plugin``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossline.testing.tester import RuleTester

__all__ = ["RuleTester"]


def __getattr__(name: str) -> Any:
    """Load a name on first use: pytest imports this package in every run."""
    if name in __all__:
        return getattr(import_module("crossline.testing.tester"), name)
    raise AttributeError(f"module 'crossline.testing' has no attribute {name!r}")
