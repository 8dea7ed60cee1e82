"""A paced generator that goes on without end is read back from what has come, not from its last record."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from crossline.cli.alerts.record_origin import _generated
from crossline.runtime.sources.fetch import GENERATED_SHIFT
from crossline.settings.sources import GeneratorSettings


def test_what_has_come_is_read_back_first(tmp_path: Path) -> None:
    """One a second for an hour, in chunks of 1,000: the fourth chunk is the last that has records."""
    source = GeneratorSettings(kind="generator", workload="tx", records=10**9, pace_per_s=1)
    began = time.time_ns() // 1_000_000 - 3_600_000
    (tmp_path / "started.json").write_text(json.dumps({"started_ms": began, "chunk_records": 1_000}))
    stored: Any = SimpleNamespace(position=None)
    rows = _generated("tx", source, stored, tmp_path).rows(())
    first = next(each for each in rows if each is not None)
    assert first.offset >> GENERATED_SHIFT == 3_000
    assert sum(each is not None for each in rows) == 3_999
