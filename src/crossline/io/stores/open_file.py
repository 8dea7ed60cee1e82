"""Checks that a path still names the file that a sink holds open."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from crossline.basics.errors import SinkError


@dataclass(frozen=True, slots=True)
class OpenFile:
    """The identity of the open file at ``path``. Keep it open: the inode of a deleted file is reused."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path, descriptor: int | None = None) -> Self:
        """The file of ``descriptor``, or else the file at ``path``. Raises OSError where there is none."""
        found = path.stat() if descriptor is None else os.fstat(descriptor)
        return cls(path, found.st_dev, found.st_ino)

    def check(self) -> None:
        """Raise SinkError where the path names another file now: no reader would see further writes."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            raise SinkError(
                f"{self.path} was deleted or moved away while the pipeline writes to it; move it back and the run goes "
                "on, or stop the pipeline and start it again: it then begins a new file"
            ) from None
        except OSError as error:
            raise SinkError(f"{self.path} cannot be looked at now: {error.strerror}") from error
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            raise SinkError(
                f"{self.path} is another file than the one that the pipeline writes to; put that one back and the run "
                "goes on, or stop the pipeline and start it again: it then goes on with what stands there"
            )
