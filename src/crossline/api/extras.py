"""Optional libraries."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from crossline.basics.errors import UsageError


def require_library(library: str, who: str) -> Any:
    """Import ``library``. Raises UsageError with the install command if it is missing."""
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise UsageError(f"{who} needs {library}, which is not installed: pip install {library}") from None
