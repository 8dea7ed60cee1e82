"""Commands as redis-py packs them, in one piece."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from redis._parsers.encoders import Encoder
from redis.connection import PythonRespSerializer

from crossline.io.redis.connections import OnePiecePacker

NAMES = st.sampled_from(["SET", "EVALSHA", "SCRIPT LOAD", "CLIENT SETINFO"])
ARGUMENTS = st.text() | st.binary(max_size=40) | st.integers() | st.floats(allow_nan=False)


@given(NAMES, st.lists(ARGUMENTS, max_size=8))
@example("EVALSHA", ["x" * 7_000, b"y" * 20_000, ""])
def test_a_command_is_packed_as_redis_py_packs_it(name: str, arguments: list[Any]) -> None:
    encode = Encoder("utf-8", "surrogatepass", decode_responses=False).encode
    expected = b"".join(PythonRespSerializer(6_000, encode).pack(name, *arguments))
    assert OnePiecePacker(encode).pack(name, *arguments) == [expected]
