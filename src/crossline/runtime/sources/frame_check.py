"""Checks of a DataFrame against a stream: an error before a query starts, and not dead letters that no one reads."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from crossline.basics.streams.schema import StreamSpec
from crossline.runtime.sources.column_check import check_columns


def check_frame(frame: DataFrame, stream: str, spec: StreamSpec) -> None:
    """Raise UsageError with all fields of ``stream`` that ``frame`` lacks or has in a type that cannot hold them."""
    check_columns(to_arrow_schema(frame.schema), stream, spec, "frame")
