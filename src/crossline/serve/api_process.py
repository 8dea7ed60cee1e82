"""The API as a process beside a pipeline that runs here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from crossline.runtime.workers.companion_process import CompanionProcess


class ApiProcess(CompanionProcess):
    """``crossline serve PIPELINE``, as long as the context is open; see ``CompanionProcess``."""

    def __init__(
        self, pipeline: Path, options: Sequence[str] = (), *, output: Path | None = None, nice: int = 0
    ) -> None:
        super().__init__("the API", ["serve", str(pipeline), *options], output=output, nice=nice)
