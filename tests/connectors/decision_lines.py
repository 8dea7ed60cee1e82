"""Decisions as the tasks hand them over: as lines with columns, of which the sink parses none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.evaluate.decisions.columns import DecisionColumns, DecisionHead
from crossline.io.sinks.decisions import Decisions


def as_lines(values: Sequence[Mapping[str, Any]], kept: Sequence[int] = ()) -> Decisions:
    """``values`` as lines; those of the numbers ``kept`` also as values. Equal heads are one."""
    heads = list(dict.fromkeys(DecisionHead.of(each) for each in values))
    times = [datetime.fromisoformat(each.get("event_time", "2026-01-01T00:00:00Z")).timestamp() for each in values]
    return Decisions(
        DecisionColumns(
            lines=[json_bytes(each) for each in values],
            ids=[each["decision_id"].encode() for each in values],
            record_ids=[each["record_id"].encode() for each in values],
            head=np.array([heads.index(DecisionHead.of(each)) for each in values], np.int64),
            heads=heads,
            event_ms=np.array([0 if n in kept else round(s * 1_000) for n, s in enumerate(times)], np.int64),
            values={number: values[number] for number in kept},
        )
    )
