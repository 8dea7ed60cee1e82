"""A small shop's payments: it asks for a decision before it takes the money, and does what is decided.

    python examples/checkout/shop.py [--url http://127.0.0.1:8080]

The key is read from CROSSLINE_KEY, where the server asks for one. Exits with 1 where a payment was not decided by the
server.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crossline.client import Client, ClientError, Decision

RELEASED_S_MAX = 60.0
LOOK_EVERY_S = 0.5

Payment = dict[str, Any]


def when_unreachable(stream: str, payment: Mapping[str, Any]) -> str:
    """The shop's own rule while nobody answers: small amounts pass, all else waits for somebody."""
    return "allow" if stream == "payments" and payment["amount_cents"] <= 5_000 else "review"


@dataclass
class Shop:
    """Asks about each payment, and does what is decided."""

    client: Client
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:8])  # ids and accounts of this run are no others'
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    undecided: int = 0

    def pay(self, account: str, cents: int, *, cvv_ok: bool = True) -> str:
        """One payment; what became of it: taken, asked (and taken), parked, refused."""
        decided = self.client.decide("payments", self.payment(account, cents, cvv_ok=cvv_ok))
        self.undecided += decided.answered == "unreachable"
        became = self.settle(decided)
        why = "; ".join(f"{reason.rule_id}: {reason.message}" for reason in decided.reasons)
        print(f"{account:<6} {cents / 100:>9,.2f} EUR  {decided.decision:<8} {became:<28} {why or decided.answered}")
        for each in decided.degraded:
            print(f"       {each.part}: {each.why}")
        return became

    def payment(self, account: str, cents: int, *, cvv_ok: bool = True) -> Payment:
        """A payment of now, with an id of its own."""
        return {
            "payment_id": f"{self.mark}-{next(self.numbers):03d}",
            "account_id": self.account(account),
            "card_hash": f"card-of-{account}",
            "amount_cents": cents,
            "currency": "EUR",
            "cvv_ok": cvv_ok,
            "event_time": int(time.time() * 1_000),
        }

    def would_pass(self, account: str, cents: int) -> bool:
        """Whether such a payment would be allowed now; nothing of it is kept, and no rule counts it."""
        return self.client.dry_run("payments", self.payment(account, cents)).decision == "allow"

    def settle(self, decided: Decision) -> str:
        """Do what is decided. What is no known decision is no leave to take money."""
        match decided.decision:
            case "allow":
                return "taken"
            case "step_up":
                return "asked for a code, then taken" if self.code_is_right() else "code wrong, refused"
            case "review":
                return "parked, somebody looks at it"
            case _:
                return "refused"

    def code_is_right(self) -> bool:
        """Here the shop would send the customer to his bank; this customer knows his code."""
        return True

    def account(self, name: str) -> str:
        """The account of a customer, in this run."""
        return f"{name}-{self.mark}"

    def release(self, account: str, reason: str) -> bool:
        """Somebody has spoken to the customer: what holds his account is released. Whether something did."""
        found = self.until(lambda: self.client.holds({"account_id": self.account(account)})["items"])
        for held in found or ():
            print(f"       held by {held['rule_id']} until {held['until']}; released: {reason}")
            self.client.release(held["hold_id"], reason=reason, if_match=held["etag"])
        return bool(found)

    def until(self, look: Any) -> Any:
        """What ``look`` gives, once it gives something; None where it does not for a minute."""
        deadline_s = time.monotonic() + RELEASED_S_MAX
        while not (found := look()) and time.monotonic() < deadline_s:
            time.sleep(LOOK_EVERY_S)
        return found or None


def day(shop: Shop) -> bool:
    """Customers of a day; whether the one who was held for nothing could pay in the end."""
    print("Ann buys a coffee.")
    shop.pay("ann", 350)
    print("Bob buys four things within a minute; with the fourth he is asked for a code.")
    for cents in (1_900, 2_500, 900, 4_200):
        shop.pay("bob", cents)
    print("Cleo furnishes a flat; beyond 3,000 EUR somebody looks at it.")
    for cents in (180_000, 140_000):
        shop.pay("cleo", cents)
    print("Dan mistypes his CVV at a television. It is refused, and his account is held.")
    shop.pay("dan", 79_900, cvv_ok=False)
    shop.pay("dan", 350)
    print("Dan calls; it was him. Somebody releases the hold, and he pays.")
    if not shop.release("dan", "called back, it was him"):
        return False
    return bool(shop.until(lambda: shop.would_pass("dan", 350))) and shop.pay("dan", 350) == "taken"


def main() -> int:
    """A day of the shop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--timeout", type=float, default=0.25, help="seconds that a customer waits for an answer")
    options = parser.parse_args()
    key = os.environ.get("CROSSLINE_KEY") or None
    with Client(options.url, key=key, timeout=options.timeout, fallback=when_unreachable) as client:
        shop = Shop(client)
        try:
            went_well = day(shop)
        except ClientError as error:  # of what is no decision: holds, dry runs
            print(error, file=sys.stderr)
            went_well = False
    if shop.undecided:
        print(f"{shop.undecided} payments were decided by the shop alone: is the server running?", file=sys.stderr)
    return 0 if went_well and not shop.undecided else 1


if __name__ == "__main__":
    sys.exit(main())
