"""The pipeline file and the lake that commands open."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.cli.launch.process import do_without_pandas
from crossline.rule_registry.content import read_pipeline_in_place

if TYPE_CHECKING:
    from crossline.lake.lookup.history import LakeHistory
    from crossline.lake.reading import LakeReader
    from crossline.settings.config import PipelineConfig

PIPELINE = Path("pipeline.yaml")
PipelineFile = Annotated[
    Path, typer.Option("--pipeline", help="Pipeline file with a section lake.", exists=True, dir_okay=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]


def open_reader(pipeline: Path, *, with_spark: bool = False) -> LakeReader:
    """The lake of a pipeline file. Raises UsageError where it has none.

    ``with_spark``: PySpark is needed too, which needs pandas.
    """
    if not with_spark:
        do_without_pandas()
    config = read_pipeline_in_place(pipeline)
    if config.lake is None:
        raise UsageError(f"{pipeline}: found no section lake; expected one, for example lake: {{path: out/lake}}")
    from crossline.lake.catalogs.catalog import open_lake
    from crossline.lake.reading import LakeReader

    return LakeReader(open_lake(config), config)


def open_history(pipeline: Path) -> LakeHistory:
    """What lists the alerts and decisions of a lake. Raises UsageError where no lake was made yet: none is made."""
    from crossline.lake.catalogs.catalog import sqlite_file

    place = sqlite_file(read_pipeline_in_place(pipeline))
    if place is not None and not place.exists():
        raise UsageError(f"{pipeline}: found no catalog {place} of the lake; `crossline lake write` makes it")
    reader = open_reader(pipeline)
    from crossline.lake.lookup.alert_lookup import AlertLookup
    from crossline.lake.lookup.history import LakeHistory

    return LakeHistory(AlertLookup(reader))


def check_reachable(config: PipelineConfig) -> None:
    """Check that Spark's tasks reach the files of the lake. Raises UsageError."""
    from crossline.io.objects.location import is_uri
    from crossline.runtime.java.launch import is_on_this_machine

    if config.lake is not None and not is_uri(config.lake.path) and not is_on_this_machine(config.engine.master):
        raise UsageError(
            f"--on spark: found lake.path {config.lake.path}, a folder of this machine, and engine.master "
            f"{config.engine.master}, whose tasks run elsewhere; expected a lake on an object store, or local[…]"
        )


def json_line(row: dict[str, Any]) -> bytes:
    """A row as JSON: instants with milliseconds, bytes as text."""
    return orjson.dumps(row, default=_plain, option=orjson.OPT_PASSTHROUGH_DATETIME)


def _plain(value: Any) -> Any:
    made: dict[type, Callable[[Any], str]] = {
        datetime: lambda each: each.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        bytes: lambda each: each.decode("utf-8", "replace"),
    }
    return made[type(value)](value)
