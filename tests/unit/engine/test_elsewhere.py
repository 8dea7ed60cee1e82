"""What a checkpoint on a store cannot do for tasks on other machines is refused at the start, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.core.basics.errors import UsageError
from crossline.core.settings.config import load_pipeline
from crossline.engine.pipeline.assemble import _check_elsewhere

TEXT = """\
schema_version: 1
name: shop
streams:
  payments:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: timestamp, account: string}
sources:
  payments: {kind: files, path: in}
rules: {kind: directory, path: rules}
sinks: [{kind: console}]
engine: {master: 'spark://head:7077', checkpoint: 's3://bucket/shop'}
"""
TABLES = "enrich:\n  tier: {kind: files, path: tiers.csv, key: account, fields: {name: string}}\n"


def test_tables_are_refused_and_a_plain_pipeline_is_not(tmp_path: Path) -> None:
    def read(name: str) -> str:
        return (tmp_path / name).read_text()

    _check_elsewhere(load_pipeline(TEXT, "pipeline.yaml", read))
    with pytest.raises(
        UsageError, match=r"found enrich \(table tier\) with master spark://head:7077 and checkpoint s3:"
    ):
        _check_elsewhere(load_pipeline(TEXT + TABLES, "pipeline.yaml", read))
