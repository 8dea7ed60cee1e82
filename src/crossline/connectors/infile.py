"""Files that a person names, read; what cannot be read is said as wrong use."""

from __future__ import annotations

from pathlib import Path

from crossline.core.config import Pipeline, in_folder, load_pipeline
from crossline.core.errors import UsageError


def read_text(path: Path, what: str) -> str:
    """The text of ``path``, which is ``what`` in messages; raises UsageError where it cannot be read as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {path} cannot be read: it is not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise UsageError(f"{what} {str(path)!r} cannot be read: {error}") from None


def read_pipeline(path: Path) -> Pipeline:
    """The pipeline file ``path``, its paths as they stand. Raises UsageError with all that is wrong."""
    text = read_text(path, "the pipeline file")
    return load_pipeline(text, str(path), lambda name: (path.parent / name).read_text(encoding="utf-8"))


def read_pipeline_in_place(path: Path) -> Pipeline:
    """As ``read_pipeline``, its paths joined to its folder."""
    return in_folder(read_pipeline(path), str(path.parent))
