"""SipHash as published, and distinct counts that no sender of crafted texts can bend."""

from __future__ import annotations

import numpy as np
import pytest

from crossline.state.memory.hashing import keyed_many, secret

# The key and texts of the paper's reference: bytes 00, 01, 02 and so on. The 15-byte one is the paper's appendix.
KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
PUBLISHED = {0: 0x726FDB47DD0E0E31, 1: 0x74F839C593DC67FD, 15: 0xA129CA6149BE45E5}


def reference(data: bytes, key: tuple[int, int]) -> int:
    """SipHash-2-4 word for word as it is described, in Python's integers."""
    most = 2**64 - 1

    def turned(x: int, by: int) -> int:
        return ((x << by) | (x >> (64 - by))) & most

    a, b, c, d = (
        key[0] ^ 0x736F6D6570736575,
        key[1] ^ 0x646F72616E646F6D,
        key[0] ^ 0x6C7967656E657261,
        key[1] ^ 0x7465646279746573,
    )

    def stir(times: int) -> None:
        nonlocal a, b, c, d
        for _ in range(times):
            a, b = (a + b) & most, turned(b, 13)
            b ^= a
            a = turned(a, 32)
            c, d = (c + d) & most, turned(d, 16)
            d ^= c
            a, d = (a + d) & most, turned(d, 21)
            d ^= a
            c, b = (c + b) & most, turned(b, 17)
            b ^= c
            c = turned(c, 32)

    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    for word in [*words, int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56]:
        d ^= word
        stir(2)
        a ^= word
    c ^= 0xFF
    stir(4)
    return a ^ b ^ c ^ d


def hashed(texts: list[bytes], key: tuple[int, int] | None) -> list[int]:
    data = np.frombuffer(b"".join(texts), np.uint8)
    return keyed_many(data, np.cumsum([0, *map(len, texts)], dtype=np.int64), key).view(np.uint64).tolist()


@pytest.mark.parametrize(("length", "hash_"), PUBLISHED.items())
def test_the_published_figures(length: int, hash_: int) -> None:
    assert hashed([bytes(range(length))], KEY) == [hash_]
    assert reference(bytes(range(length)), KEY) == hash_


def test_texts_of_any_length() -> None:
    texts = [bytes(range(n)) + b"\xff" * (n % 5) for n in range(70)]
    for key in (KEY, (2**64 - 1, 0)):
        assert hashed(texts, key) == [reference(text, key) for text in texts]


def test_without_a_key_it_is_that_of_the_process() -> None:
    assert hashed([b"a", b"b"], None) == [reference(text, secret()) for text in (b"a", b"b")]
    assert secret() is secret()


def test_offsets_are_checked() -> None:
    with pytest.raises(ValueError, match="offsets must ascend"):
        keyed_many(np.zeros(1, np.uint8), np.array([0, 2]))
