import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics import wire
from crossline.basics.errors import StateError

DTYPES = st.sampled_from(["<i8", "<f8", "<i4", "|u1", "<u8"])


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8), st.tuples(DTYPES, st.integers(0, 5), st.integers(0, 3)), max_size=5
    )
)
def test_what_goes_in_comes_out(shapes: dict[str, tuple[str, int, int]]) -> None:
    arrays = {
        name: np.arange(rows * columns).reshape(rows, columns).astype(dtype)
        if columns
        else np.arange(rows).astype(dtype)
        for name, (dtype, rows, columns) in shapes.items()
    }
    meta, back = wire.decode(wire.encode({"a": [1, "x", None]}, arrays), "blob")
    assert meta == {"a": [1, "x", None]}
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert (back[name] == array).all()


def test_arrays_stand_on_eight_byte_boundaries() -> None:
    blob = wire.encode({}, {"odd": np.ones(3, np.uint8), "words": np.arange(4, dtype=np.int64)})
    _, back = wire.decode(blob, "blob")
    assert back["words"].ctypes.data % 8 == memoryview_address(blob) % 8


def memoryview_address(blob: bytes) -> int:
    return int(np.frombuffer(blob, np.uint8).ctypes.data)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_one_changed_byte_is_found(position: int, flip: int) -> None:
    blob = bytearray(wire.encode({"batch": 1}, {"a": np.arange(20, dtype=np.int64)}))
    position %= len(blob)
    blob[position] ^= flip
    with pytest.raises(StateError, match="segment 7"):
        wire.decode(bytes(blob), "segment 7")


def test_a_cut_blob_is_reported_as_such() -> None:
    with pytest.raises(StateError, match="cut short"):
        wire.decode(b"XLW1", "x.seg")


def test_another_format_version_says_what_to_do() -> None:
    blob = bytearray(wire.encode({}, {}))
    blob[4] = 99
    with pytest.raises(StateError, match="state format 99, this version reads 3"):
        wire.decode(bytes(blob), "x.seg")
