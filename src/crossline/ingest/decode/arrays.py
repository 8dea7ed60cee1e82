"""Arrow arrays of any layout as plain ones, and decimals as the numbers that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.values import F64, I64

Mask = npt.NDArray[np.bool_]
# Up to here every whole number and every power of ten is a double, so that their quotient is rounded once.
WHOLE_MAX, POWER_MAX = 2**53, 22
INT64_DIGITS = 18


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column's chunks as one plain array."""
    chunks = [plain(chunk) for chunk in column.chunks]
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else plain(pa.array([], column.type))


def plain(array: pa.Array) -> pa.Array:
    """``array`` as a plain type, without its encoding: dictionaries, runs, views, extension types.

    Raises:
        pa.ArrowException: a layout that Arrow itself cannot take apart.
    """
    types, kind = pa.types, array.type
    made = array
    if isinstance(array, pa.ExtensionArray):
        made = plain(array.storage)
    elif types.is_dictionary(kind):
        made = plain(array.dictionary).take(array.indices)
    elif types.is_run_end_encoded(kind):
        places = np.arange(array.offset, array.offset + len(array))
        made = plain(array.values).take(pa.array(np.searchsorted(array.run_ends.to_numpy(), places, side="right")))
    elif types.is_string_view(kind):
        made = array.cast(pa.large_string())
    elif types.is_binary_view(kind):
        made = array.cast(pa.large_binary())
    elif types.is_list_view(kind) or types.is_large_list_view(kind):
        made = _viewed_lists(array)
    return made


def _viewed_lists(array: pa.Array) -> pa.Array:
    """Lists that lie anywhere among their values, as lists side by side."""
    sizes = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
    ends = np.cumsum(sizes)
    places = np.arange(sizes.sum()) + np.repeat(np.asarray(array.offsets, np.int64) - (ends - sizes), sizes)
    bounds = pa.array(np.concatenate([np.zeros(1, np.int64), ends]))
    return pa.LargeListArray.from_arrays(bounds, plain(array.values).take(pa.array(places)), mask=pc.is_null(array))


def shown_values(column: pa.ChunkedArray, rows: pa.Array) -> list[Any]:
    """The values at ``rows``, as near as Python can come: it has no text that is not UTF-8, and no year 10000."""
    try:
        array = one_array(column).take(rows)
    except pa.ArrowException:
        return ["(cannot be shown)"] * len(rows)
    try:
        values: list[Any] = array.to_pylist()
    except (UnicodeDecodeError, OverflowError, ValueError, NotImplementedError):
        if pa.types.is_timestamp(array.type):
            return list(array.cast(pa.int64()).to_pylist())
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            return [value and value.decode("utf-8", "replace") for value in array.cast(pa.large_binary()).to_pylist()]
        return ["(cannot be shown)"] * len(rows)
    return values


def decimal_doubles(array: pa.Array) -> F64:
    """The double next to each decimal, as a reader of JSON gives for the same digits; anything for null."""
    low, fits = _unscaled(array)
    scale = array.type.scale
    power = np.float64(10 ** min(abs(scale), POWER_MAX))
    doubles: F64 = low.astype(np.float64)
    doubles = doubles / power if scale >= 0 else doubles * power
    slow = ~(fits & (low <= WHOLE_MAX) & (low >= -WHOLE_MAX)) & np.asarray(pc.is_valid(array))
    if abs(scale) > POWER_MAX:
        slow = np.asarray(pc.is_valid(array))
    if slow.any():
        digits = array.filter(pa.array(slow)).cast(pa.string())
        doubles[slow] = np.asarray(digits.cast(pa.float64()))
    return doubles


def decimal_integers(array: pa.Array) -> tuple[I64, Mask, Mask]:
    """Each decimal as int64, where it is not whole, and where it is beyond 64 bits; 0 for these and for null."""
    low, fits = _unscaled(array)
    scale, valid = array.type.scale, np.asarray(pc.is_valid(array))
    if not 0 <= scale <= INT64_DIGITS:
        fits = np.zeros(len(low), np.bool_)
    whole, rest = np.divmod(low, np.int64(10 ** min(max(scale, 0), INT64_DIGITS)))
    broken, beyond = rest != 0, np.zeros(len(low), np.bool_)
    for row in np.flatnonzero(valid & ~fits).tolist():
        value = array[row].as_py()
        number = int(value)
        broken[row], beyond[row] = number != value, not -(2**63) <= number < 2**63
        whole[row] = 0 if beyond[row] else number
    beyond &= ~broken
    whole[broken | ~valid] = 0
    return whole, broken & valid, beyond & valid


def _unscaled(array: pa.Array) -> tuple[I64, Mask]:
    """The digits of each decimal as a whole number, and where 64 bits hold it."""
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), np.int64), np.ones(len(array), np.bool_)
    raw = np.frombuffer(data, np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    if width <= np.int64().nbytes:
        return raw.view(f"i{width}").astype(np.int64), np.ones(len(array), np.bool_)
    words = raw.view(np.int64).reshape(len(array), -1)
    low = words[:, 0].copy()
    return low, (words[:, 1:] == (low >> 63)[:, None]).all(axis=1)
