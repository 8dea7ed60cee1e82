"""One small run of everything, so that the classes it loads can be put by for all later runs.

``python -m crossline.runtime.pipeline.rehearsal``: the archive, where there is none yet.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from crossline.runtime.java.settings import java_options
from crossline.runtime.machine.class_archive import archive_path, make_flags
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.pipeline.assemble import RunOptions, assemble, read_config
from crossline.runtime.spark.session import build_session
from crossline.runtime.spark_internals.gateway import end_session
from crossline.settings.config import in_folder

_PIPELINE = """
schema_version: 1
name: rehearsal
streams:
  s: {id: transaction_id, event_time: {field: event_time}, fields: {transaction_id: string, account_id: string,
      card_hash: string, merchant_id: string, amount_cents: integer, currency: string, lat: number, lon: number,
      event_time: integer, payment_type: string}}
sources: {s: {kind: generator, workload: tx, records: 4000}}
rules: {kind: directory, path: rules}
sinks: [{kind: sqlite, path: out/alerts.db}]
engine: {trigger: 0s, checkpoint: out/checkpoint, master: "local[2]", max_batch_records: 1000}
"""
_RULE = """
{rule_id: r, version: 1, rule_type: velocity, source_topic: s, group_by: account_id, aggregation_type: count,
 aggregation_threshold: 3, window: 10s}
"""


def rehearse(archive: Path) -> None:
    """Run a pipeline from start to end and have its Java leave ``archive`` behind."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    temporary = archive.with_suffix(f".{os.getpid()}.tmp")
    with own_folder_for("rehearsal") as root:
        (root / "rules").mkdir()
        (root / "rules" / "r.yaml").write_text(_RULE, encoding="utf-8")
        (root / "pipeline.yaml").write_text(_PIPELINE, encoding="utf-8")
        config = in_folder(read_config(str(root / "pipeline.yaml")), str(root))
        flags = java_options(make_flags(temporary))
        spark = build_session("rehearsal", "local[2]", settings={"spark.driver.extraJavaOptions": flags})
        assemble(spark, config, RunOptions(complete=True)).start().drain()
        end_session(spark)  # Java writes the archive then
    if temporary.is_file():
        temporary.replace(archive)


if __name__ == "__main__":
    if not archive_path().is_file():
        sys.stderr.write("putting Java's classes by (half a minute, once)\n")
        rehearse(archive_path())
