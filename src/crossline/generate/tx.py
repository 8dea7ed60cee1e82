"""Workload ``tx``: seeded card transactions, the load that every published figure is measured on.

Record i is a pure function of the workload's parameters and i. Random numbers come in blocks of ``BLOCK`` records, each
from a generator keyed by seed and block number, so that any range can be made again, on any worker, in any cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.basics.values import F64, I64
from crossline.generate.text import hexadecimal, json_lines, mix, numbered

BLOCK = 16_384
BASE_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
ZIPF_EXPONENT = 1.1
# Below the stated 1 %, so that the share counted in a sample of two million stays under it as well.
SHARE_MAX = 0.0095
AMOUNT_MEDIAN_CENTS = 2_500
AMOUNT_SIGMA = 1.0
PAYMENT_TYPES = ("CRD", "CSH", "TRF", "WEB")
PAYMENT_SHARES = (0.50, 0.20, 0.10, 0.20)
CURRENCIES = ("EUR", "USD", "GBP", "INR")
SECOND_CARD_SHARE = 0.2
SECOND_DEVICE_SHARE = 0.1
LINES_BATCH = 32_768


@dataclass(frozen=True, slots=True)
class TxWorkload:
    """Parameters of ``tx``; equal parameters give equal records.

    ``rate_per_s`` is records per second of event time; a record's event time is its place in that row plus 0 to
    ``disorder_ms``, which is how far it can lie behind the highest event time before it. ``base_ms``: epoch ms of the
    place of record 0. ``with_device`` adds ``device_id`` and leaves the other columns as they are.
    """

    seed: int = 1
    accounts: int = 50_000
    merchants: int = 2_000
    rate_per_s: int = 2_000
    disorder_ms: int = 2_000
    base_ms: int = BASE_MS
    with_device: bool = False

    def __post_init__(self) -> None:
        """Refuse parameters that make no records."""
        check_at_least("seed", self.seed, 0)
        check_at_least("accounts", self.accounts, 1)
        check_at_least("merchants", self.merchants, 1)
        check_at_least("rate_per_s", self.rate_per_s, 1)
        check_at_least("disorder_ms", self.disorder_ms, 0)

    def records(self, start: int, count: int) -> pa.Table:
        """Records [start, start + count) as columns named as in the JSON lines."""
        blocks = [self._block(*cut) for cut in block_cuts(start, count)]
        drawn = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        return self._table(np.arange(start, start + count, dtype=np.int64), drawn)

    def lines(self, start: int, count: int) -> bytes:
        """Records [start, start + count) as JSON lines."""
        end = start + count
        cuts = range(start, end, LINES_BATCH)
        return b"".join(json_lines(self.records(cut, min(LINES_BATCH, end - cut))) for cut in cuts)

    def _block(self, block: int, low: int, high: int) -> dict[str, F64]:
        """The draws of records low to high of a block. Their order is part of the workload: append, never insert."""
        rng = block_rng(self.seed, block)
        drawn = {
            "account": rng.random(BLOCK),
            "merchant": rng.random(BLOCK),
            "amount": rng.standard_normal(BLOCK),
            "payment": rng.random(BLOCK),
            "card": rng.random(BLOCK),
            "delay": rng.random(BLOCK),
            "lat": rng.random(BLOCK),
            "lon": rng.random(BLOCK),
        }
        if self.with_device:
            drawn["device"] = rng.random(BLOCK)
        return {name: values[low:high] for name, values in drawn.items()}

    def _table(self, numbers: I64, drawn: dict[str, F64]) -> pa.Table:
        account = np.searchsorted(account_shares(self.accounts), drawn["account"], side="right").astype(np.int64)
        home = mix(account)
        amount = np.maximum(1, np.rint(AMOUNT_MEDIAN_CENTS * np.exp(AMOUNT_SIGMA * drawn["amount"]))).astype(np.int64)
        payment = np.searchsorted(np.cumsum(PAYMENT_SHARES)[:-1], drawn["payment"], side="right")
        delay = (drawn["delay"] * (self.disorder_ms + 1)).astype(np.int64)
        columns = {
            "transaction_id": numbered("t", numbers, 7),
            "account_id": numbered("a", account, 7),
            "card_hash": hexadecimal(mix(account * 2 + (drawn["card"] < SECOND_CARD_SHARE), salt=1)),
            "merchant_id": numbered("m", (drawn["merchant"] * self.merchants).astype(np.int64), 5),
            "amount_cents": pa.array(amount),
            "currency": pick(CURRENCIES, (home % np.uint64(len(CURRENCIES))).astype(np.int64)),
            "lat": pa.array(degrees((home >> np.uint64(8)) % np.uint64(11_000), -40.0, drawn["lat"])),
            "lon": pa.array(degrees((home >> np.uint64(32)) % np.uint64(30_000), -150.0, drawn["lon"])),
            "event_time": pa.array(self.base_ms + numbers * 1_000 // self.rate_per_s + delay),
            "payment_type": pick(PAYMENT_TYPES, payment),
        }
        if self.with_device:
            columns["device_id"] = numbered("d", account * 2 + (drawn["device"] < SECOND_DEVICE_SHARE), 8)
        return pa.table(columns)


def tx_records(start: int, count: int, seed: int) -> pa.Table:
    """Records [start, start + count) of the default workload under ``seed``."""
    return TxWorkload(seed=seed).records(start, count)


def tx_lines(start: int, count: int, seed: int) -> bytes:
    """Records [start, start + count) of the default workload under ``seed``, as JSON lines."""
    return TxWorkload(seed=seed).lines(start, count)


def block_rng(seed: int, block: int) -> np.random.Generator:
    """The random generator of one block of one seed."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, block], np.uint64)))


def block_cuts(start: int, count: int) -> list[tuple[int, int, int]]:
    """(block, low, high) that cover records [start, start + count), low and high inside the block; never none."""
    check_at_least("start", start, 0)
    check_at_least("count", count, 0)
    end = start + count
    blocks = range(start // BLOCK, max(-(-end // BLOCK), start // BLOCK + 1))
    return [(block, max(start - block * BLOCK, 0), min(end - block * BLOCK, BLOCK)) for block in blocks]


@lru_cache(maxsize=4)
def account_shares(accounts: int) -> F64:
    """Cumulated shares of accounts 0, 1, …: zipf; what lies above the limit goes to the others in proportion."""
    weights = np.arange(1, accounts + 1, dtype=np.float64) ** -ZIPF_EXPONENT
    share_max = max(SHARE_MAX, 1.0 / accounts)
    tails = np.cumsum(weights[::-1])[::-1]
    # The first k accounts stand at the limit; k is the first for which the next account, scaled up, fits under it.
    limits = np.maximum(0.0, 1.0 - share_max * np.arange(accounts))
    fits = weights * limits <= share_max * tails
    capped = int(np.argmax(fits)) if fits.any() else accounts - 1
    shares = weights * (limits[capped] / tails[capped])
    shares[:capped] = share_max
    cumulative: F64 = np.cumsum(shares)
    cumulative[-1] = 1.0
    return cumulative


def degrees(cell: npt.NDArray[np.uint64], lowest: float, draw: F64) -> F64:
    """A coordinate of five decimals: the home's cell above ``lowest``, and 0 to 0.05 degrees from it."""
    steps = cell.astype(np.int64) * 1_000 + (draw * 5_000).astype(np.int64) + round(lowest * 1e5)
    return steps / 1e5


def pick(names: tuple[str, ...], index: I64) -> pa.Array:
    """``names[index]`` as a string array."""
    return pa.array(names, pa.string()).take(pa.array(index))


def check_at_least(name: str, value: int, least: int) -> None:
    """Refuse a parameter below its least value."""
    if value < least:
        raise UsageError(f"{name} is {value}; it must be {least} or more")
