"""The common base of the servers: a folder, a process in it, and how it ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from crossline.basics.errors import CrosslineError, PermanentError
from dev.services.supervision import Home, end_at_once, end_in_order

_STOP_S_MAX = 30.0
_TRIES = 3


class Server:
    """A server as a context manager, which a class for each kind makes ready in ``__enter__``.

    ``folder``: where its data stays; None: in a temporary one, which goes with it. ``alone``: see Home.
    """

    log_name: ClassVar[str]

    def __init__(self, folder: Path | None, *, alone: bool) -> None:
        self._kept, self._alone = folder, alone
        self._home: Home | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """The folder of its data, settings and log."""
        return self._opened.path

    @property
    def log_file(self) -> Path:
        """Its log."""
        return self.folder / self.log_name

    @property
    def pid(self) -> int | None:
        """Its process; None if it does not run."""
        return self._process.pid if self._process is not None else None

    def kill(self) -> int | None:
        """Kill it, like a crash; return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        end_at_once(process)
        return process.returncode

    def close(self) -> None:
        """Stop it, and remove its data unless it was given a folder."""
        process, self._process = self._process, None
        if process is not None and self._kept is not None:
            end_in_order(process, signal.SIGTERM, _STOP_S_MAX)
        elif process is not None:
            end_at_once(process)
        self._remove()

    def _remove(self) -> None:
        if self._home is not None:
            self._home.remove()
            self._home = None

    def _come_up(self, begin: Callable[[], None], taken: str, *, fixed: bool) -> None:
        """``begin``, which chooses ports and starts it, again if another process took one before it was bound.

        The log then says ``taken``. With ``fixed`` ports it is tried once.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                begin()
                break
            except CrosslineError:
                if fixed or tries_left == 0 or taken not in self.log_file.read_text(errors="replace"):
                    raise

    @property
    def _opened(self) -> Home:
        if self._home is None:
            name = type(self).__name__
            raise PermanentError(f"the server is not open: use it as `with {name}() as server:`")
        return self._home
