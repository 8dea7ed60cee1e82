"""Decoding: bytes or tables into columns, and a dead letter for each record that cannot be decoded."""

from crossline.ingest.decode.columnar import decode_table
from crossline.ingest.decode.csv_records import decode_csv
from crossline.ingest.decode.flat_records import PlainForm
from crossline.ingest.decode.json_records import decode_lines, decode_values
from crossline.ingest.decode.layout import RecordLayout, make_layout, table_layout
from crossline.ingest.decode.reasons import REASONS, Reason
from crossline.ingest.decode.spans import Decoded

__all__ = [
    "REASONS",
    "Decoded",
    "PlainForm",
    "Reason",
    "RecordLayout",
    "decode_csv",
    "decode_lines",
    "decode_table",
    "decode_values",
    "make_layout",
    "table_layout",
]
