"""The card scenario: everyday card traffic with planted frauds, and the labels that say where they are.

As in ``tx``, record i is a pure function of the parameters and i, so that any range can be made again in any cut.
Records carry no label. By default an account pays about once in 1,000 s of event time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.errors import UsageError
from crossline.basics.values import F64, I64
from crossline.generate import card_holders
from crossline.generate.frauds import EPOCH_MS, NOBODY, SCENARIOS, Fraud, Scene, plan_epoch
from crossline.generate.labels import PlantedFraud
from crossline.generate.text import hexadecimal, json_lines, numbered
from crossline.generate.tx import BASE_MS, BLOCK, LINES_BATCH, block_cuts, block_rng, check_at_least, pick

ACCOUNTS_PER_RATE = 1_000
ACCOUNTS_MIN = 1_000
DRAWS = (
    "account", "merchant", "stray", "choice", "amount", "payment", "device", "decline", "cvv", "delay", "lat", "lon",
)  # fmt: skip
# Prefix and digits of the names of each numbered thing.
NAMES = {
    "transaction_id": ("t", 7),
    "account_id": ("a", 7),
    "device_id": ("d", 8),
    "merchant_id": ("m", 6),
    "beneficiary_id": ("b", 7),
}

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class CardWorkload:
    """Parameters of the card scenario; equal parameters give equal records and labels.

    ``accounts`` 0 means 1,000 for each record per second of event time, which keeps each account as quiet at any rate.
    ``frauds_per_epoch``: how many of each kind are planted in each 20 minutes of event time. ``kinds``: which of the
    five are planted, empty for all; what is planted of a kind, and where, does not depend on the others.
    """

    seed: int = 1
    accounts: int = 0
    rate_per_s: int = 20
    disorder_ms: int = 2_000
    base_ms: int = BASE_MS
    frauds_per_epoch: int = 2
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse parameters that make no records, and fill in the number of accounts."""
        check_at_least("seed", self.seed, 0)
        check_at_least("rate_per_s", self.rate_per_s, 1)
        check_at_least("disorder_ms", self.disorder_ms, 0)
        check_at_least("frauds_per_epoch", self.frauds_per_epoch, 0)
        if self.accounts == 0:
            object.__setattr__(self, "accounts", max(ACCOUNTS_MIN, ACCOUNTS_PER_RATE * self.rate_per_s))
        check_at_least("accounts", self.accounts, ACCOUNTS_MIN)
        for kind in self.kinds:
            if kind not in SCENARIOS:
                raise UsageError(f"no kind of fraud is named {kind!r}; known: {', '.join(SCENARIOS)}")

    @property
    def merchants(self) -> int:
        """Number of merchants: one for 20 accounts."""
        return self.accounts // 20

    @property
    def utilities(self) -> int:
        """Number of beneficiaries that everybody pays now and then; they are numbered after the private ones."""
        return max(20, self.accounts // 1_000)

    def records(self, start: int, count: int) -> pa.Table:
        """Records [start, start + count) as columns named as in the JSON lines."""
        blocks = [self._block(*cut) for cut in block_cuts(start, count)]
        drawn = {name: np.concatenate([block[name] for block in blocks]) for name in DRAWS}
        numbers = np.arange(start, start + count, dtype=np.int64)
        columns = self._everyday(numbers, drawn)
        self._plant(start, count, columns)
        return self._table(numbers, columns, drawn)

    def lines(self, start: int, count: int) -> bytes:
        """Records [start, start + count) as JSON lines."""
        end = start + count
        cuts = range(start, end, LINES_BATCH)
        return b"".join(json_lines(self.records(cut, min(LINES_BATCH, end - cut))) for cut in cuts)

    def labels(self, start: int, count: int) -> list[PlantedFraud]:
        """The frauds with records in [start, start + count), in order of their first record."""
        end = start + count
        labels = []
        for fraud in self._frauds(start, end):
            inside = [position for position in fraud.positions if start <= position < end]
            if inside:
                labels.append(self._label(fraud, inside))
        return sorted(labels, key=lambda label: (label.record_ids[0], label.fraud_id))

    def _label(self, fraud: Fraud, inside: list[int]) -> PlantedFraud:
        first_ms, last_ms = (self.base_ms + position * 1_000 // self.rate_per_s for position in (inside[0], inside[-1]))
        return PlantedFraud(
            fraud_id=fraud.fraud_id,
            scenario=fraud.scenario,
            record_ids=tuple(f"t{position:07d}" for position in inside),
            key={fraud.key_column: _name(fraud.key_column, fraud.key_number)},
            start_ms=first_ms,
            end_ms=last_ms + self.disorder_ms,
            complete=len(inside) == len(fraud.positions),
        )

    def _block(self, block: int, low: int, high: int) -> dict[str, F64]:
        """The draws of records low to high of a block. Their order is part of the workload: append, never insert."""
        rng = block_rng(self.seed, block)
        drawn = {name: rng.standard_normal(BLOCK) if name == "amount" else rng.random(BLOCK) for name in DRAWS}
        return {name: values[low:high] for name, values in drawn.items()}

    def _everyday(self, numbers: I64, drawn: dict[str, F64]) -> Columns:
        """The background's payments, as the numbers that ``Payment`` is made of."""
        since_base_ms = numbers * 1_000 // self.rate_per_s
        account = (drawn["account"] * self.accounts).astype(np.int64)
        city, in_flight = card_holders.whereabouts(account, since_base_ms)
        # Who sits in an aeroplane pays nothing: somebody else does.
        account = np.where(in_flight, (account + self.accounts // 2) % self.accounts, account)
        city = np.where(in_flight, card_holders.whereabouts(account, since_base_ms)[0], city)
        payment = np.searchsorted(np.cumsum(card_holders.PAYMENT_SHARES)[:-1], drawn["payment"], side="right")
        stray = drawn["stray"] < 0.15
        usual = card_holders.usual_merchant(
            account, _choice(drawn["choice"], card_holders.USUAL_MERCHANTS), self.merchants
        )
        merchant = np.where(stray, (drawn["merchant"] * self.merchants).astype(np.int64), usual)
        own = card_holders.usual_beneficiary(
            account, _choice(drawn["choice"], card_holders.USUAL_BENEFICIARIES), self.accounts
        )
        utility = self.accounts + _choice(drawn["merchant"], self.utilities)
        transfer = payment == card_holders.TRANSFER
        amount = card_holders.usual_amount(account) * np.exp(0.6 * drawn["amount"]) * np.where(transfer, 2.0, 1.0)
        amount = np.where(payment == card_holders.CASH, np.ceil(amount / 1_000) * 1_000, np.maximum(1, np.rint(amount)))
        return {
            "account": account,
            "device": account * 2 + (drawn["device"] < 0.03),
            "merchant": np.where(transfer, NOBODY, merchant),
            "beneficiary": np.where(transfer, np.where(stray, utility, own), NOBODY),
            "amount": amount.astype(np.int64),
            "city": city,
            "payment": payment,
            "approved": drawn["decline"] >= 0.03,
            "cvv_ok": drawn["cvv"] >= 0.01,
        }

    def _plant(self, start: int, count: int, columns: Columns) -> None:
        """Write the planted payments over the background's, in place."""
        for fraud in self._frauds(start, start + count):
            for position, payment in zip(fraud.positions, fraud.payments, strict=True):
                if start <= position < start + count:
                    for name, values in columns.items():
                        values[position - start] = getattr(payment, name)

    def _frauds(self, start: int, end: int) -> list[Fraud]:
        """The frauds of all epochs that records [start, end) touch."""
        if end <= start:
            return []
        setting = Scene(self.seed, self.accounts, self.merchants, self.accounts, self.rate_per_s, self.frauds_per_epoch)
        first, last = (position * 1_000 // self.rate_per_s // EPOCH_MS for position in (start, end - 1))
        planted = [fraud for epoch in range(first, last + 1) for fraud in _epoch(setting, epoch)]
        return [fraud for fraud in planted if not self.kinds or fraud.scenario in self.kinds]

    def _table(self, numbers: I64, columns: Columns, drawn: dict[str, F64]) -> pa.Table:
        delay = (drawn["delay"] * (self.disorder_ms + 1)).astype(np.int64)
        location = pa.StructArray.from_arrays(
            [_coordinate([city.lat for city in card_holders.CITIES], columns["city"], drawn["lat"]),
             _coordinate([city.lon for city in card_holders.CITIES], columns["city"], drawn["lon"])],
            names=["lat", "lon"],
        )  # fmt: skip
        return pa.table(
            {
                "transaction_id": _names("transaction_id", numbers),
                "account_id": _names("account_id", columns["account"]),
                "card_hash": hexadecimal(card_holders.card_number(columns["account"])),
                "device_id": _names("device_id", columns["device"]),
                "merchant_id": _names("merchant_id", columns["merchant"]),
                "beneficiary_id": _names("beneficiary_id", columns["beneficiary"]),
                "amount_cents": pa.array(columns["amount"]),
                "currency": pick(tuple(city.currency for city in card_holders.CITIES), columns["city"]),
                "location": location,
                "country": pick(tuple(city.country for city in card_holders.CITIES), columns["city"]),
                "payment_type": pick(card_holders.PAYMENT_TYPES, columns["payment"]),
                "status": pick(("declined", "approved"), columns["approved"].astype(np.int64)),
                "cvv_ok": pa.array(columns["cvv_ok"]),
                "event_time": pa.array(self.base_ms + numbers * 1_000 // self.rate_per_s + delay),
            }
        )


@lru_cache(maxsize=256)
def _epoch(setting: Scene, epoch: int) -> list[Fraud]:
    return plan_epoch(setting, epoch)


def _choice(draw: F64, values: int) -> I64:
    return (draw * values).astype(np.int64)


def _coordinate(centres: list[float], city: I64, draw: F64) -> pa.Array:
    """Degrees with five decimals, within a tenth of a degree of the city's centre."""
    steps = np.rint(np.array(centres) * 1e5).astype(np.int64)[city] + (draw * 20_000).astype(np.int64) - 10_000
    return pa.array(steps / 1e5)


def _names(column: str, numbers: I64) -> pa.Array:
    """The numbers as the records name them; ``NOBODY`` has no name."""
    prefix, width = NAMES[column]
    names = numbered(prefix, numbers.clip(0), width)
    nobody = numbers == NOBODY
    return pc.if_else(pa.array(nobody), pa.scalar(None, pa.string()), names) if nobody.any() else names


def _name(column: str, number: int) -> str:
    """A key value as the records show it."""
    numbers = np.array([number], np.int64)
    if column == "card_hash":
        return str(hexadecimal(card_holders.card_number(numbers))[0].as_py())
    return str(_names(column, numbers)[0].as_py())
