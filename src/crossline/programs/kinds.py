"""The words of figures: clocks, kinds of columns, comparisons."""

from __future__ import annotations

from typing import Literal

TimeMode = Literal["event_time", "processing_time"]
ColumnKind = Literal["int", "float", "code"]  # code: int64 codes, compared for identity only
Operator = Literal["==", "!=", ">", ">=", "<", "<="]
