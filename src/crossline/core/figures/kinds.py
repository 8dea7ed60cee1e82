"""The words of figures: clocks, aggregates, kinds of columns, comparisons."""

from __future__ import annotations

from typing import Literal

TimeMode = Literal["event_time", "processing_time"]
Counted = Literal["count", "sum", "avg", "min", "max", "stddev", "last", "first", "distinct_count"]  # as velocity has
Aggregate = Counted | Literal["since", "age", "streak", "quantile", "decayed"]
ColumnKind = Literal["int", "float", "code"]  # code: int64 codes, compared for identity only
DISTINCT_ERROR = 0.01625  # standard error of distinct counts in panes beyond what is counted exactly
QUANTILE_ERROR = 1 / 129  # the most that a quantile of panes is off, as a part of it
Operator = Literal["==", "!=", ">", ">=", "<", "<="]
