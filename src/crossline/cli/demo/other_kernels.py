"""The kernels that the demo does not need: compiled beside it, at low priority, once it has shown an alert."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

COMMAND = (sys.executable, "-m", "crossline.runtime.workers.kernel_warmup", "--tied", "--beside")
_END_S = 10.0


class OtherKernels:
    """A process that compiles all kernels that are not in the cache, from ``begin`` to the end of the context at most.

    It ends with this process too, however that ends: its standard input is closed then. What it has
    compiled by then is kept, and `make setup`, or what first needs a kernel, goes on with the rest. It gets no signals
    of the terminal. Where it cannot be started, or fails, the kernels are compiled when they are first needed.

    Example: ``with OtherKernels() as kernels: kernels.begin()``.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = False

    @property
    def process_id(self) -> int | None:
        """Of the process; None where there is none."""
        return None if self._process is None else self._process.pid

    def begin(self) -> None:
        """Start it; from the second call on nothing is done."""
        if self._begun:
            return
        self._begun = True
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            sys.stderr.write(f"the other kernels are compiled when they are first needed: {error}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        self._process = None
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
