"""What a failed query says, in crossline's own words where crossline raised it."""

from __future__ import annotations

import re

from crossline.core import errors
from crossline.core.errors import CrosslineError, PermanentError

# A worker's exception arrives as text: "crossline.core.errors.StateError: <message>", then the JVM's own lines.
_OURS = re.compile(r"crossline\.core\.errors\.(\w+): (.*?)(?=\n\s*(?:at |Caused by|\t|SQLSTATE)|\n\n|\Z)", re.DOTALL)
_PYTHON = re.compile(r"^(?:[\w.]+(?:Error|Exception)): .+$", re.MULTILINE)


def explained(failure: Exception) -> CrosslineError:
    """``failure`` of a query as one of our errors; its cause is kept."""
    text = str(failure)
    ours = _OURS.search(text)
    if ours is not None:
        kind = getattr(errors, ours.group(1), PermanentError)
        if isinstance(kind, type) and issubclass(kind, CrosslineError):
            return kind(ours.group(2).strip())
    python = _PYTHON.findall(text)
    said = python[-1] if python else text.strip().splitlines()[0] if text.strip() else repr(failure)
    return PermanentError(f"the query failed: {said}")
