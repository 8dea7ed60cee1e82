"""How much one may ask: a token bucket for each principal, and one for each address that sends wrong credentials."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Hashable

# Wrong credentials of one address: so many at once, then one a second.
WRONG_BURST, WRONG_PER_S = 20, 1.0
# What is beyond that is refused as too many, but still looked at: a right one of the same address (a proxy's) passes.
# To look at a token costs a signature, so of those that turn out wrong no more than this many are looked at.
COSTLY_BURST, COSTLY_PER_S = 200, 100.0
HELD_MAX = 10_000


class Buckets:
    """Token buckets of one size, by key: O(1) a request, one number a bucket.

    A bucket is kept as the time at which it is full again (GCRA). One that is full by then is as good as none, so the
    bucket that was asked longest ago is forgotten where there are too many. Nobody's bucket depends on another one's
    requests.

    Args:
        per_s: Tokens that come back in a second.
        burst: Tokens of a full bucket.
        held_max: Buckets that are kept at most.

    Example:
        >>> buckets = Buckets(per_s=2, burst=1)
        >>> buckets.take("shop", 10.0), buckets.take("shop", 10.0), buckets.take("shop", 10.5)
        (0.0, 0.5, 0.0)
    """

    def __init__(self, per_s: float, burst: float, held_max: int = HELD_MAX) -> None:
        self._token_s = 1.0 / per_s
        self._window_s = burst / per_s
        self._held_max = held_max
        self._full_s: OrderedDict[Hashable, float] = OrderedDict()

    def take(self, key: Hashable, now_s: float, tokens: float = 1.0) -> float:
        """Take ``tokens`` (no more than the burst counts) out of the bucket of ``key``.

        Returns 0.0 where they were there; else the seconds until they are, and takes nothing.
        """
        full_s = self._full_s.get(key, now_s)
        full_s = max(full_s, now_s) + min(tokens * self._token_s, self._window_s)
        over_s = full_s - now_s - self._window_s
        if over_s > 1e-9:
            return over_s
        self._full_s[key] = full_s
        self._full_s.move_to_end(key)
        if len(self._full_s) > self._held_max:
            self._full_s.popitem(last=False)
        return 0.0

    def wait(self, key: Hashable, now_s: float) -> float:
        """Seconds until there is a token; takes none."""
        return max(0.0, self._full_s.get(key, now_s) - now_s + self._token_s - self._window_s)

    def __len__(self) -> int:
        return len(self._full_s)


def peer_key(host: str) -> str:
    """What addresses of one peer share: an IPv4 address, or the /64 that a peer with IPv6 has all of."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
