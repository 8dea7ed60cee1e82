"""Decoding: bytes or tables into columns, and a dead letter for each record that cannot be taken in."""

from crossline.core.decode.columnar import decode_table
from crossline.core.decode.documents import decode_lines, decode_values
from crossline.core.decode.layout import RecordLayout, make_layout, table_layout
from crossline.core.decode.plain import PlainForm
from crossline.core.decode.reasons import REASONS, Reason
from crossline.core.decode.separated import decode_csv
from crossline.core.decode.spans import Decoded

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
