"""The people of the card scenario: where they live and travel, what they carry, where and how much they pay.

Everything here is a function of the account's number, so that no table of accounts is kept or shipped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from crossline.basics.values import F64, I64
from crossline.generate.text import mix

Flags = npt.NDArray[np.bool_]


class City(NamedTuple):
    """A home town: one a country, so that another city is another country."""

    country: str
    currency: str
    lat: float
    lon: float


CITIES = (
    City("DE", "EUR", 52.52, 13.40),
    City("FR", "EUR", 48.86, 2.35),
    City("GB", "GBP", 51.51, -0.13),
    City("ES", "EUR", 40.42, -3.70),
    City("IT", "EUR", 41.90, 12.50),
    City("PL", "PLN", 52.23, 21.01),
    City("SE", "SEK", 59.33, 18.07),
    City("TR", "TRY", 41.01, 28.98),
    City("US", "USD", 40.71, -74.01),
    City("BR", "BRL", -23.55, -46.63),
    City("ZA", "ZAR", -26.20, 28.05),
    City("KE", "KES", -1.29, 36.82),
    City("IN", "INR", 19.08, 72.88),
    City("SG", "SGD", 1.35, 103.82),
    City("JP", "JPY", 35.68, 139.69),
    City("AU", "AUD", -33.87, 151.21),
)

# Payment types: by card in a shop, cash from a machine, transfer to a beneficiary, card on the web.
CARD, CASH, TRANSFER, WEB = range(4)
PAYMENT_TYPES = ("CRD", "CSH", "TRF", "WEB")
PAYMENT_SHARES = (0.60, 0.08, 0.07, 0.25)
USUAL_MERCHANTS = 8
USUAL_BENEFICIARIES = 3

TRIP_MS = 4 * 3_600_000
TRIPS_ONE_IN = 50
FLIGHT_MS = 20 * 60_000

# One salt a trait: traits of an account are independent of each other.
SALT_HOME, SALT_CARD, SALT_AMOUNT, SALT_MERCHANT, SALT_PHASE, SALT_TRIP, SALT_ABROAD, SALT_BENEFICIARY = range(10, 18)


def home_city(account: I64) -> I64:
    """Index into ``CITIES`` of each account's home."""
    return _trait(account, SALT_HOME, len(CITIES))


def card_number(account: I64) -> npt.NDArray[np.uint64]:
    """Each account's card, as the 64 bits that its hash shows."""
    return mix(account, SALT_CARD)


def usual_amount(account: I64) -> F64:
    """What each account usually pays, in cents: 1,500 to 4,000."""
    cents: F64 = _trait(account, SALT_AMOUNT, 2_500) + np.float64(1_500.0)
    return cents


def usual_merchant(account: I64, choice: I64, merchants: int) -> I64:
    """The merchant number that is each account's usual one number ``choice``."""
    return _trait(account * USUAL_MERCHANTS + choice, SALT_MERCHANT, merchants)


def usual_beneficiary(account: I64, choice: I64, accounts: int) -> I64:
    """The beneficiary number that is each account's usual one number ``choice``."""
    return _trait(account * USUAL_BENEFICIARIES + choice, SALT_BENEFICIARY, accounts)


def whereabouts(account: I64, since_base_ms: I64) -> tuple[I64, Flags]:
    """(city, in flight) of each account at a time: at home, or now and then on a trip between two flights."""
    shifted = since_base_ms + _trait(account, SALT_PHASE, TRIP_MS)
    period, into_ms = shifted // TRIP_MS, shifted % TRIP_MS
    trip = account * 1_000_003 + period
    away = _trait(trip, SALT_TRIP, TRIPS_ONE_IN) == 0
    home = home_city(account)
    abroad = (home + 1 + _trait(trip, SALT_ABROAD, len(CITIES) - 1)) % len(CITIES)
    in_flight: Flags = away & ((into_ms < FLIGHT_MS) | (into_ms >= TRIP_MS - FLIGHT_MS))
    return np.where(away, abroad, home), in_flight


def _trait(number: npt.NDArray[Any], salt: int, values: int) -> I64:
    """A trait of 0 to ``values`` - 1 for each number."""
    return (mix(number, salt) % np.uint64(values)).astype(np.int64)
