"""Token buckets against a twin that counts tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crossline.serve.access.limits import Buckets, peer_key


class Twin:
    """A bucket as the words say it: so many tokens at most, so many a second."""

    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s, self.burst, self.tokens, self.at_s = per_s, burst, float(burst), 0.0

    def take(self, now_s: float, tokens: float) -> bool:
        self.tokens = min(self.burst, self.tokens + (now_s - self.at_s) * self.per_s)
        self.at_s = now_s
        tokens = min(tokens, self.burst)
        if self.tokens + 1e-6 < tokens:
            return False
        self.tokens -= tokens
        return True


@given(
    st.integers(1, 50),
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 30)), max_size=60),
)
def test_it_is_a_token_bucket(per_s: int, burst: int, asked: list[tuple[int, int]]) -> None:
    buckets, twin, now_s = Buckets(per_s, burst), Twin(per_s, burst), 1_000.0
    for eighths, tokens in asked:
        now_s += eighths / 8
        wait_s = buckets.take("k", now_s, tokens)
        assert (wait_s == 0.0) == twin.take(now_s, tokens)
        if wait_s:  # the announced wait is long enough
            assert buckets.take("k", now_s + wait_s, 0.0) == 0.0
            later = Twin(per_s, burst)
            later.tokens, later.at_s = twin.tokens, twin.at_s
            assert later.take(now_s + wait_s, tokens)


def test_one_key_does_not_cost_another() -> None:
    buckets = Buckets(1, 2)
    assert [buckets.take("a", 5.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert buckets.take("b", 5.0) == 0.0
    assert buckets.wait("b", 5.0) == 0.0
    assert buckets.wait("a", 5.0) == 1.0


def test_what_is_refused_costs_nothing() -> None:
    buckets = Buckets(1, 1)
    assert buckets.take("a", 5.0) == 0.0
    assert {buckets.take("a", 5.5) for _ in range(100)} == {0.5}
    assert buckets.take("a", 6.0) == 0.0


def test_memory_is_bounded() -> None:
    buckets = Buckets(1, 1, held_max=100)
    for number in range(10_000):
        buckets.take(number, 5.0)
    assert len(buckets) == 100
    assert buckets.take(9_999, 5.0) > 0


def test_a_peer_has_one_address_or_a_network() -> None:
    assert peer_key("192.0.2.1") == "192.0.2.1"
    assert peer_key("::ffff:192.0.2.1") == "192.0.2.1"
    assert peer_key("2001:db8::1") == peer_key("2001:db8::ffff:1") == "2001:db8::/64"
    assert peer_key("fe80::1%eth0") == "fe80::/64"
    assert peer_key("somebody") == "somebody"
