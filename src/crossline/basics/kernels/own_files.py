"""Files of code that a user keeps for himself: what another user could have written is not run."""

from __future__ import annotations

import os
from pathlib import Path

_OTHERS_WRITE = 0o022


def read_own(path: Path) -> bytes | None:
    """The bytes of a file of this user or of root, which nobody else may write; None: there is none such."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if about.st_uid not in {os.geteuid(), 0} or about.st_mode & _OTHERS_WRITE:
                return None
            return file.read()
    except OSError:
        return None


def replace_own(path: Path, content: bytes) -> bool:
    """Write it, whole or not at all; make its folder where that is missing. False: the folder takes no files."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)  # of a killed process of this number
        try:
            with beside.open("xb") as file:
                os.fchmod(file.fileno(), 0o644)
                file.write(content)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError:
        return False
    return True
