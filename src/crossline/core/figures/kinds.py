"""The words of figures: clocks, aggregates, kinds of columns, comparisons."""

from __future__ import annotations

from typing import Literal

TimeMode = Literal["event_time", "processing_time"]
Counted = Literal["count", "sum", "avg", "min", "max", "stddev", "last", "first", "distinct_count"]  # as velocity has
Aggregate = Counted | Literal["since", "age", "streak"]
ColumnKind = Literal["int", "float", "code"]  # code: int64 codes, compared for identity only
Operator = Literal["==", "!=", ">", ">=", "<", "<="]
