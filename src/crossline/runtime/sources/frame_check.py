"""Whether a DataFrame has what a stream needs: told before a query starts, and not as dead letters that nobody sees."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from crossline.basics.streams.schema import StreamSpec
from crossline.runtime.sources.column_check import check_columns


def check_frame(frame: DataFrame, stream: str, spec: StreamSpec) -> None:
    """Raise UsageError with all fields of ``stream`` that ``frame`` lacks or has in a type that cannot hold them."""
    check_columns(to_arrow_schema(frame.schema), stream, spec, "frame")
