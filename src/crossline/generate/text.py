"""Numbers to text and tables to JSON lines, by whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.values import I64, U8

HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
ZERO = ord("0")


def fixed_width(matrix: U8) -> pa.Array:
    """Rows of ASCII bytes (uint8[n, width]) as a string array, without copying row by row."""
    rows, width = matrix.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    data = np.ascontiguousarray(matrix)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def numbered(prefix: str, numbers: I64, width: int) -> pa.Array:
    """``prefix`` and each number (0 or more) padded with zeros to ``width``; wider numbers keep all their digits."""
    if len(numbers) == 0:
        return pa.array([], pa.string())
    if int(numbers.max()) >= 10**width:
        digits = pc.ascii_lpad(pc.cast(pa.array(numbers), pa.string()), width, "0")
        return pc.binary_join_element_wise(prefix, digits, "")
    matrix = np.empty((len(numbers), len(prefix) + width), np.uint8)
    matrix[:, : len(prefix)] = np.frombuffer(prefix.encode("ascii"), np.uint8)
    # 32-bit division is twice as fast, and nearly every number fits.
    rest: npt.NDArray[Any] = numbers.astype(np.uint32 if width <= 9 else np.uint64)
    for column in range(matrix.shape[1] - 1, len(prefix) - 1, -1):
        quotient = rest // 10
        matrix[:, column] = (rest - quotient * 10 + ZERO).astype(np.uint8)
        rest = quotient
    return fixed_width(matrix)


def hexadecimal(numbers: npt.NDArray[np.uint64]) -> pa.Array:
    """Each number as 16 lower-case hexadecimal digits."""
    raw = numbers.astype(">u8").view(np.uint8).reshape(len(numbers), 8)
    matrix = np.empty((len(numbers), 16), np.uint8)
    matrix[:, 0::2] = HEX_DIGITS[raw >> 4]
    matrix[:, 1::2] = HEX_DIGITS[raw & 15]
    return fixed_width(matrix)


def mix(numbers: npt.NDArray[Any], salt: int = 0) -> npt.NDArray[np.uint64]:
    """Scatter numbers over 64 bits (splitmix64), so that what belongs to an account is a function of its number."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 & (2**64 - 1))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def json_lines(table: pa.Table) -> bytes:
    """The table as JSON lines, keys in column order. Strings must need no escape, as the generator's names do not."""
    return b"".join(_batch_lines(batch) for batch in table.combine_chunks().to_batches())


def _batch_lines(batch: pa.RecordBatch) -> bytes:
    parts: list[Any] = []
    literal = "{"
    for index, name in enumerate(batch.schema.names):
        literal += f'{"," if index else ""}"{name}":'
        literal = _append_value(parts, literal, batch.column(index))
    parts.append(literal + "}\n")
    joined = pc.binary_join_element_wise(*parts, "")
    return _data(joined)


def _append_value(parts: list[Any], literal: str, column: pa.Array) -> str:
    """Append ``literal`` and the column's JSON to ``parts``; the text that opens the next part is returned."""
    kind = column.type
    if pa.types.is_struct(kind):
        literal += "{"
        for index in range(kind.num_fields):
            literal += f'{"," if index else ""}"{kind.field(index).name}":'
            literal = _append_value(parts, literal, column.field(index))
        return literal + "}"
    if pa.types.is_string(kind) and column.null_count == 0:
        parts.extend([literal + '"', column])
        return '"'
    if pa.types.is_string(kind):
        text = pc.binary_join_element_wise('"', column, '"', "")
    else:
        text = pc.cast(column, pa.string())
    parts.extend([literal, pc.fill_null(text, "null") if column.null_count else text])
    return ""


def _data(joined: pa.Array) -> bytes:
    """The bytes of all values of a string array, one after the other: its data buffer as it lies."""
    _, offsets, data = joined.buffers()
    bounds = np.frombuffer(offsets, np.int32)
    first, last = int(bounds[joined.offset]), int(bounds[joined.offset + len(joined)])
    return b"" if first == last else memoryview(data)[first:last].tobytes()
