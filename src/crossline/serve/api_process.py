"""The API as a process beside a pipeline that runs here: started with it, begun again where it ends, ended with it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Self

from crossline.logs import get_logger
from crossline.runtime.java.child_processes import end_with_parent

END_S = 10.0
PAUSE_S, PAUSE_S_MAX = 0.5, 10.0
USAGE = 2  # the exit code of what will not be better when it is begun again

log = get_logger(__name__)


class ApiProcess:
    """``crossline serve PIPELINE``, as long as the context is open.

    ``output``: a new file for its output; else it writes where this process does. ``nice``: by how much its priority is
    lower.
    """

    def __init__(
        self, pipeline: Path, options: Sequence[str] = (), *, output: Path | None = None, nice: int = 0
    ) -> None:
        self._command = [sys.executable, "-m", "crossline.cli.main", "serve", str(pipeline), *options]
        self._output = output
        self._nice = nice
        self._ending = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._started = threading.Event()
        # A process that is tied to its parent ends with the thread that started it: this one lives as long as it may.
        self._thread = threading.Thread(target=self._keep, name="api", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def _keep(self) -> None:
        pause_s = PAUSE_S
        while not self._ending.is_set():
            code = self._run()
            if self._ending.is_set():
                return
            log.error("the API ended", exit_code=code, begins_again_s=None if code == USAGE else pause_s)
            if code == USAGE:
                return
            self._ending.wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _run(self) -> int:
        """Until it ends; its exit code, 1 where it could not be started."""
        try:
            with nullcontext() if self._output is None else self._output.open("wb") as output:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    preexec_fn=self._before,  # noqa: PLW1509 - it does no more than two calls to the system
                    start_new_session=True,  # a terminal's Ctrl-C is for the pipeline, which ends this one in its turn
                )
        except OSError as error:
            log.error("the API cannot be started", error=str(error))  # noqa: TRY400 - the text has the reason
            return 1
        finally:
            self._started.set()
        return self._process.wait()

    def _before(self) -> None:
        """In the process that is to be it."""
        end_with_parent()
        if self._nice:
            os.nice(self._nice)

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._ending.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join()
