"""What holding a key would have stopped in the past 24 hours, by the alerts, decisions and labels that are known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from crossline.basics.conditions.evaluation import lookup
from crossline.basics.texts.money import sums_text
from crossline.serve.console.layout.numbers import counted
from crossline.settings.process.casework import MoneySettings

PAST_MS = 86_400_000
Record = tuple[str, str]
Caption = tuple[tuple[str, bool], ...]
_NOTHING = (
    "In the past 24 hours no record of it raised an alert that was not blocked already: what it would have stopped is "
    "unknown."
)


@dataclass(frozen=True, slots=True)
class Stopped:
    """Records with alerts that were let through, or sent to people.

    ``money``: by currency; ``unknown``: how many have an amount that no alert carries.
    """

    records: int
    money: Mapping[str, Decimal] = field(default_factory=dict)
    unknown: int = 0
    blocked: int = 0
    good: int = 0

    def caption(self) -> Caption:
        """In pieces: text, and whether it is strong."""
        if not self.records:
            return ((_NOTHING, False),)
        sums = sums_text(self.money.items(), " and ")
        what = counted(self.records, "record") + " that raised alerts" + (f", {sums}" if sums else "")
        pieces = [("In the past 24 hours this would have stopped ", False), (what, True), (".", False)]
        if self.unknown:
            of = "Their money" if self.unknown == self.records else f"The money of {self.unknown:,} of them"
            pieces.append((f" {of} is unknown: no alert carries the record.", False))
        if self.good:
            pieces.append((f" {self.good:,} of them {'is' if self.good == 1 else 'are'} labelled good.", False))
        if self.blocked:
            pieces.append((f" {self.blocked:,} more {'was' if self.blocked == 1 else 'were'} blocked already.", False))
        return (*pieces, (" Records without an alert are not counted.", False))


def stopped(
    alerts: Iterable[Mapping[str, Any]],
    decided: Mapping[Record, str],
    good: Collection[Record],
    money: MoneySettings | None,
) -> Stopped:
    """Of ``alerts`` of the past 24 hours.

    Args:
        alerts: As the store has them; corrections and retracted ones left out.
        decided: What stands on records, where it is known.
        good: Records that are labelled as no fraud.
        money: Where the amount stands in a record; None: it stands nowhere.
    """
    amounts: dict[Record, tuple[str, Decimal] | None] = {}
    for each in alerts:
        record = str(each["stream"]), str(each["record_id"])
        found = amount_of(each, money)
        if found is not None or record not in amounts:
            amounts[record] = found
    let = {record: amount for record, amount in amounts.items() if decided.get(record) != "block"}
    sums: dict[str, Decimal] = {}
    for amount in let.values():
        if amount is not None:
            sums[amount[0]] = sums.get(amount[0], Decimal()) + amount[1]
    unknown = sum(1 for amount in let.values() if amount is None)
    return Stopped(len(let), dict(sorted(sums.items())), unknown, len(amounts) - len(let), len(let.keys() & set(good)))


def amount_of(alert: Mapping[str, Any], money: MoneySettings | None) -> tuple[str, Decimal] | None:
    """Currency and amount of the record that an alert carries; None if it carries none."""
    record = alert.get("record")
    if money is None or not isinstance(record, Mapping):
        return None
    amount = lookup(record, money.field)
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        return None
    currency = str(("" if money.currency is None else lookup(record, money.currency)) or "")
    return currency, Decimal(str(amount)).scaleb(-money.decimals_of(currency))
