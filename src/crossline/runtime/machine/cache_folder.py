"""Where crossline keeps what it fetched and made for itself: jars, a wrapped Java, bytecode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from crossline.basics.errors import PermanentError

CACHE_VARIABLE = "CROSSLINE_CACHE"
_PACKAGE = Path(__file__).resolve().parents[2]


def checkout() -> Path | None:
    """The folder of the repository that this package runs from; None where it is installed without one."""
    folder = _PACKAGE.parents[1]
    return folder if _PACKAGE.parent.name == "src" and (folder / "pyproject.toml").is_file() else None


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The cache folder, made where it is missing.

    ``$CROSSLINE_CACHE``; else ``.cache/crossline`` of the checkout, where that may be written; else the user's cache.
    Raises PermanentError where the folder cannot be made.
    """
    folder = _wanted(environment)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PermanentError(
            f"cannot make the cache folder {folder}: {error.strerror}; set {CACHE_VARIABLE} to one that can be written"
        ) from None
    return folder


def _wanted(environment: Mapping[str, str]) -> Path:
    if given := environment.get(CACHE_VARIABLE):
        return Path(given).expanduser().resolve()
    repository = checkout()
    if repository is not None and os.access(repository, os.W_OK):
        return repository / ".cache" / "crossline"
    if given := environment.get("XDG_CACHE_HOME"):
        return Path(given) / "crossline"
    return Path.home() / ".cache" / "crossline"
