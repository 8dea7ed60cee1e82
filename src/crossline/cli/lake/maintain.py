"""``crossline lake maintain``: maintenance of the tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.cli.lake.lake_options import PIPELINE, AsJson, PipelineFile, check_reachable, open_reader
from crossline.cli.signals import Runner, session_of, stoppable
from crossline.cli.terminal.notes import write_lines
from crossline.cli.terminal.tables import Listing, show

if TYPE_CHECKING:
    from crossline.lake.maintenance.on_spark import MaintainedOnSpark
    from crossline.lake.reading import LakeReader

On = Annotated[
    Runner,
    typer.Option(
        help="What maintains. local: this process, without Java. spark: Spark with Iceberg's procedures, on the "
        "pipeline's engine.master, for large tables; it merges manifests too. auto: local."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="maintain", help="Merge small files, expire snapshots and old rows, delete orphaned files.")(
        maintain
    )


def maintain(pipeline: PipelineFile = PIPELINE, on: On = Runner.AUTO, as_json: AsJson = False) -> None:
    """Maintain the tables of the pipeline's lake, as its section lake says. Writers and readers go on meanwhile."""
    reader = open_reader(pipeline, with_spark=on is Runner.SPARK)
    settings = reader.config.lake
    assert settings is not None  # noqa: S101 - it was opened
    if on is Runner.SPARK:
        done: Sequence[Any] = _on_spark(reader)
    else:
        from crossline.lake.maintenance.schedule import maintain as run

        done = list(run(reader, settings, time.time_ns() // 1_000_000))
    if as_json:
        write_lines([orjson.dumps(asdict(each)) for each in done])
        return
    merged = ("manifests merged",) if on is Runner.SPARK else ()
    table = Listing("table", "files merged", "into", *merged, "snapshots expired", "files deleted", "orphans deleted")
    for each in done:
        if on is Runner.SPARK:
            name, *counts = astuple(each)
        else:
            compacted, expired = each.compacted, each.expired
            name, *counts = (
                each.table,
                compacted.before,
                compacted.after,
                expired.snapshots,
                expired.files,
                each.orphans,
            )
        table.add(name, *(f"{count:,}" for count in counts))
    show(table)


def _on_spark(reader: LakeReader) -> list[MaintainedOnSpark]:
    from crossline.lake.catalogs.spark_catalog import catalog_settings, jar_groups, session_settings
    from crossline.lake.maintenance.on_spark import maintain_on_spark
    from crossline.runtime.java.launch import found_jars
    from crossline.runtime.machine.jars import ensure_jars

    config = reader.config
    assert config.lake is not None  # noqa: S101 - it was opened
    check_reachable(config)
    catalog = catalog_settings(config)
    jars = [jar for group in jar_groups(config.lake) for jar in ensure_jars(group)]
    engine = config.engine.model_copy(update={"spark": session_settings(found_jars(), jars, config.engine.spark)})
    with stoppable() as stopping, session_of("lake-maintain", stopping, engine) as spark:
        for name, value in catalog.items():
            spark.conf.set(name, value)
        done = []
        for each in maintain_on_spark(spark, reader, config.lake, time.time_ns() // 1_000_000):
            stopping.check()
            done.append(each)
        return done
