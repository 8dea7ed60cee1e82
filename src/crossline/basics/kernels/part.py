"""What compiled code calls, and which build this process has: compiled, checked, or plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crossline.basics.kernels import files

IN_PYTHON = bool(files.setting("NUMBA_DISABLE_JIT"))  # nothing is compiled, for a debugger
CHECKED = bool(files.setting("NUMBA_BOUNDSCHECK"))


class Part:
    """What compiled code calls by this name: it is made, with numba, once something that calls it is compiled.

    Args:
        make: Returns the function or intrinsic of numba's.
        name: What it is called in errors.
    """

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._make, self._name = make, name
        self._made: Any = None

    def made(self) -> Any:
        """It, as numba knows it; the same at each call."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def __call__(self, *_: Any) -> Any:
        """Refuses, with TypeError: only compiled code calls it."""
        raise TypeError(f"{self._name} is not callable from Python: it is a part of compiled code")
