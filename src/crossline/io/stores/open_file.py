"""Whether a path still leads to the file that a sink holds open."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from crossline.basics.errors import SinkError


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file as it was found at ``path``. It has to be held open: the number of one that is deleted is given away."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path, descriptor: int | None = None) -> Self:
        """The file of ``descriptor``, or that which ``path`` leads to; raises OSError where there is none."""
        found = path.stat() if descriptor is None else os.fstat(descriptor)
        return cls(path, found.st_dev, found.st_ino)

    def check(self) -> None:
        """Raise SinkError where the path leads elsewhere by now: what is written would be seen by nobody."""
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
