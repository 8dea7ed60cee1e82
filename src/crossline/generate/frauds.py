"""The frauds that the card scenario plants: what each kind of attacker does, and the labels that say so.

Frauds are planted an *epoch* at a time: each lies whole inside its epoch, so that the frauds of a range of records
follow from the epochs that it touches. A planted payment takes the place of a background record, and so its time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crossline.generate.card_holders import CASH, CITIES, TRANSFER, WEB, home_city

EPOCH_MS = 20 * 60_000
SPAN_MS_MAX = 10 * 60_000
START_MS_MAX = 8 * 60_000
TESTED_CARDS = 3
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Payment:
    """One planted payment, in the numbers that columns are made of; merchant or beneficiary may be ``NOBODY``."""

    offset_ms: int
    account: int
    device: int
    merchant: int
    beneficiary: int
    amount: int
    city: int
    payment: int
    approved: bool
    cvv_ok: bool


@dataclass(frozen=True, slots=True)
class Fraud:
    """A planted fraud: the column and number that it turns on, its payments in time order, their record numbers."""

    fraud_id: str
    scenario: str
    key_column: str
    key_number: int
    payments: tuple[Payment, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """What the attackers find: so many accounts, merchants and beneficiaries, numbered from 0."""

    seed: int
    accounts: int
    merchants: int
    beneficiaries: int
    rate_per_s: int
    frauds_per_epoch: int


Plan = tuple[str, int, list[Payment]]


def card_testing(rng: np.random.Generator, setting: Scene) -> Plan:
    """One device tries three stolen cards with tiny amounts, mostly declined, then buys something dear with one."""
    device, merchant = _new_device(rng, setting), int(rng.integers(setting.merchants))
    victims = _some_accounts(rng, setting, TESTED_CARDS)
    tries = int(rng.integers(18, 25))
    offsets = np.cumsum(rng.integers(2_000, 8_000, tries + 1))
    payments = []
    for index in range(tries):
        offset, amount, approved = int(offsets[index]), int(rng.integers(50, 250)), bool(rng.random() < 0.2)
        victim = victims[index % TESTED_CARDS]
        payment = _payment(offset, victim, device, WEB, amount, merchant=merchant, approved=approved, cvv_ok=False)
        payments.append(payment)
    amount = int(rng.integers(80_000, 200_000))
    shop = int(rng.integers(setting.merchants))
    payments.append(_payment(int(offsets[-1]), victims[0], device, WEB, amount, merchant=shop, cvv_ok=False))
    return "device_id", device, payments


def account_takeover(rng: np.random.Generator, setting: Scene) -> Plan:
    """From a device never seen before, cash and transfers empty the account within minutes."""
    device, victim = _new_device(rng, setting), _some_accounts(rng, setting, 1)[0]
    payments = []
    for offset in np.cumsum(rng.integers(20_000, 90_000, int(rng.integers(4, 7)))):
        amount = int(rng.integers(60, 120)) * 1_000
        if rng.random() < 0.5:
            machine = int(rng.integers(setting.merchants))
            payments.append(_payment(int(offset), victim, device, CASH, amount, merchant=machine))
        else:
            receiver = int(rng.integers(setting.beneficiaries))
            payments.append(_payment(int(offset), victim, device, TRANSFER, amount, beneficiary=receiver))
    return "account_id", victim, payments


def impossible_travel(rng: np.random.Generator, setting: Scene) -> Plan:
    """The card pays at home, and minutes later its copy pays in another country."""
    victim = _some_accounts(rng, setting, 1)[0]
    abroad = (_home(victim) + 1 + int(rng.integers(len(CITIES) - 1))) % len(CITIES)
    offsets = np.cumsum(rng.integers(60_000, 150_000, 2 + int(rng.integers(1, 3))))
    payments = []
    for index, offset in enumerate(offsets):
        city = abroad if index else _home(victim)
        amount, shop = int(rng.integers(2_000, 30_000)), int(rng.integers(setting.merchants))
        payments.append(_payment(int(offset), victim, victim * 2, 0, amount, merchant=shop, city=city))
    return "card_hash", victim, payments


def mule_fan_in(rng: np.random.Generator, setting: Scene) -> Plan:
    """Many senders, robbed or in league, transfer to one beneficiary within minutes."""
    receiver = int(rng.integers(setting.beneficiaries))
    senders = _some_accounts(rng, setting, int(rng.integers(10, 18)))
    offsets = np.cumsum(rng.integers(5_000, 30_000, len(senders)))
    payments = [
        _payment(int(offset), sender, sender * 2, TRANSFER, int(rng.integers(20_000, 45_000)), beneficiary=receiver)
        for offset, sender in zip(offsets, senders, strict=True)
    ]
    return "beneficiary_id", receiver, payments


def merchant_anomaly(rng: np.random.Generator, setting: Scene) -> Plan:
    """A quiet merchant takes many dear payments from many cards within minutes, and will be gone tomorrow."""
    merchant = int(rng.integers(setting.merchants))
    buyers = _some_accounts(rng, setting, int(rng.integers(25, 40)))
    offsets = np.cumsum(rng.integers(2_000, 9_000, len(buyers)))
    payments = [
        _payment(int(offset), buyer, buyer * 2, WEB, int(rng.integers(25_000, 70_000)), merchant=merchant)
        for offset, buyer in zip(offsets, buyers, strict=True)
    ]
    return "merchant_id", merchant, payments


SCENARIOS: dict[str, Callable[[np.random.Generator, Scene], Plan]] = {
    "card_testing": card_testing,
    "account_takeover": account_takeover,
    "impossible_travel": impossible_travel,
    "mule_fan_in": mule_fan_in,
    "merchant_anomaly": merchant_anomaly,
}


def plan_epoch(setting: Scene, epoch: int) -> list[Fraud]:
    """The frauds of one epoch, with the places of their payments; no two payments share a place."""
    # The top bit keeps these streams of random numbers apart from those of the background's blocks.
    rng = np.random.Generator(np.random.Philox(key=np.array([setting.seed, 2**63 + epoch], np.uint64)))
    taken: set[int] = set()
    frauds = []
    for name, scenario in SCENARIOS.items():
        for number in range(setting.frauds_per_epoch):
            start_ms = int(rng.integers(START_MS_MAX))
            key_column, key_number, payments = scenario(rng, setting)
            positions = _places(payments, epoch * EPOCH_MS + start_ms, setting.rate_per_s, taken)
            fraud_id = f"{name}-{epoch:05d}-{number}"
            frauds.append(Fraud(fraud_id, name, key_column, key_number, tuple(payments), positions))
    return frauds


def _places(payments: list[Payment], start_ms: int, rate_per_s: int, taken: set[int]) -> tuple[int, ...]:
    """The record number of each payment: the first free one at or after its time, in the payments' order."""
    positions: list[int] = []
    for payment in payments:
        position = (start_ms + payment.offset_ms) * rate_per_s // 1_000
        while position in taken:
            position += 1
        taken.add(position)
        positions.append(position)
    return tuple(positions)


def _payment(
    offset_ms: int,
    account: int,
    device: int,
    payment: int,
    amount: int,
    *,
    merchant: int = NOBODY,
    beneficiary: int = NOBODY,
    city: int | None = None,
    approved: bool = True,
    cvv_ok: bool = True,
) -> Payment:
    """A payment in the account's home city where no other is given."""
    place = _home(account) if city is None else city
    return Payment(offset_ms, account, device, merchant, beneficiary, amount, place, payment, approved, cvv_ok)


def _home(account: int) -> int:
    return int(home_city(np.array([account]))[0])


def _new_device(rng: np.random.Generator, setting: Scene) -> int:
    """A device that no account carries: theirs are numbered below twice the number of accounts."""
    return 2 * setting.accounts + int(rng.integers(10**7))


def _some_accounts(rng: np.random.Generator, setting: Scene, count: int) -> list[int]:
    """``count`` different accounts."""
    found: dict[int, None] = {}
    while len(found) < count:
        found[int(rng.integers(setting.accounts))] = None
    return list(found)
