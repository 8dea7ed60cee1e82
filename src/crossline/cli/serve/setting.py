"""What the commands below ``serve`` read of the pipeline file, and who runs them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from crossline.basics.errors import UsageError
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.sources.ownership import user_name
from crossline.serve.access.auditfiles import FOLDER
from crossline.serve.access.roles import Principal
from crossline.settings.config import PipelineConfig
from crossline.settings.process.serve import ServeSettings

PipelineFile = Annotated[
    Path, typer.Option("--pipeline", help="Pipeline file with a section serve.", exists=True, dir_okay=False)
]
PIPELINE = Path("pipeline.yaml")
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]


def serve_settings(pipeline: Path) -> tuple[PipelineConfig, ServeSettings]:
    """The pipeline, and its section ``serve`` with its paths. Raises UsageError if there is none."""
    config = read_pipeline_in_place(pipeline)
    if config.serve is None:
        raise UsageError(f"{pipeline}: found no section serve; expected one, for example serve: {{keys: keys.db}}")
    return config, config.serve


def audit_folder(serve: ServeSettings) -> Path:
    """Where the audit log stands."""
    return Path(serve.path) / FOLDER


def this_user() -> Principal:
    """Who runs this command, as the system calls him: rights on the files are his scopes."""
    number = os.geteuid()
    return Principal(user_name(number) or str(number), frozenset(), "user")


def now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000
