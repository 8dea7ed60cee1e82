"""The version of the package that is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of


def version() -> str:
    """As the package's metadata has it; ``0+unknown`` where the sources run without an installation."""
    try:
        return version_of("crossline")
    except PackageNotFoundError:
        return "0+unknown"
