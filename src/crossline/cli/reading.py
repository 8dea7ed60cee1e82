"""Files that are named on the command line, read; what cannot be read is said as wrong use."""

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
    """The pipeline file ``path``, its paths joined to its folder. Raises UsageError with all that is wrong."""
    text = read_text(path, "the pipeline file")

    def beside(name: str) -> str:
        return (path.parent / name).read_text(encoding="utf-8")

    return in_folder(load_pipeline(text, str(path), beside), str(path.parent))
