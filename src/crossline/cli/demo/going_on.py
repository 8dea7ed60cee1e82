"""The demo goes on after its summary: payments come, and the console shows what becomes of them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crossline.core.settings.config import PipelineConfig as Config

RECORDS = 10**9  # more than anybody waits for


def go_on(config: Config, folder: Path, records: int) -> None:
    """Run the demo's pipeline, of which ``records`` payments were judged, with more of them, until Ctrl-C."""
    assert config.serve is not None  # noqa: S101 - the demo has written it
    pipeline = folder / "pipeline.yaml"
    text = pipeline.read_text(encoding="utf-8")
    pipeline.write_text(text.replace(f"records: {records},", f"records: {RECORDS},"), encoding="utf-8")
    sys.stderr.write(
        f"\nthe console: http://{config.serve.place}/   it is there in some seconds; payments go on coming, "
        "and Ctrl-C ends it\n"
    )
    command = [sys.executable, "-m", "crossline.cli.main", "run", str(pipeline), "--serve"]
    with subprocess.Popen(command) as running:
        while running.poll() is None:
            with suppress(KeyboardInterrupt):  # it goes to both, and the run ends by itself
                running.wait()
