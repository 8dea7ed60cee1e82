"""What a case keeps of an alert: who it is about, by which values it is linked, its money. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from crossline.basics.conditions.evaluation import lookup
from crossline.basics.times import parse_instant_ms
from crossline.rules.policy.words import SEVERITIES
from crossline.settings.process.casework import CasesSettings, MoneySettings

VALUE_MAX = 1_024  # characters of a value that is linked by
MESSAGE_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Tie:
    """A field and a value that an alert has. ``joins``: alerts with it belong together; else it is only found by."""

    field: str
    value: str
    joins: bool = True


@dataclass(frozen=True, slots=True)
class AlertFacts:
    """An alert as cases keep it. ``severity``: its place in ``SEVERITIES``; ``event_ms``: in epoch milliseconds.

    ``amount``: a decimal number as text; None if the alert carries none. ``key``: field to value, as text.
    """

    alert_id: str
    stream: str
    record_id: str
    rule_id: str
    rule_version: int
    severity: int
    message: str
    event_ms: int
    key: Mapping[str, str]
    ties: tuple[Tie, ...]
    amount: str | None = None
    currency: str | None = None

    def text(self) -> str:
        """What a search finds it by."""
        ids = (self.message, self.record_id, self.alert_id, self.rule_id)
        return " ".join(dict.fromkeys([*ids, *(each.value for each in self.ties)]))


def opens_cases(alert: Mapping[str, Any]) -> bool:
    """Whether it is an alert that people are to see: no shadow of a rule, and none that only feeds other rules."""
    return alert["kind"] == "alert" and bool(alert.get("emit_to_sink", True))


def facts_of(alert: Mapping[str, Any], settings: CasesSettings) -> AlertFacts:
    """What is kept of ``alert``."""
    key = {name: as_text(value) for name, value in alert["key"].items() if value is not None}
    record = alert.get("record")
    carried: Mapping[str, Any] = record if isinstance(record, Mapping) else {}
    ties = {(each.field, each.value): each for each in ties_of(key)}
    for name in settings.link:
        found = alert["key"].get(name)
        value = lookup(carried, name) if found is None else found
        if isinstance(value, str | int) and value != "":
            tie = Tie(name, as_text(value))
            ties[tie.field, tie.value] = tie
    amount, currency = (None, None) if settings.money is None else _money(carried, settings.money)
    return AlertFacts(
        alert_id=alert["alert_id"],
        stream=alert["stream"],
        record_id=alert["record_id"],
        rule_id=alert["rule_id"],
        rule_version=alert["rule_version"],
        severity=SEVERITIES.index(alert["severity"]),
        message=str(alert["message"])[:MESSAGE_MAX],
        event_ms=parse_instant_ms(alert["event_time"]),
        key=key,
        ties=tuple(ties.values()),
        amount=amount,
        currency=currency,
    )


def ties_of(key: Mapping[str, str]) -> list[Tie]:
    """The key as a whole, by which alerts join; of several fields each as well, by which a case is found.

    >>> ties_of({"account_id": "a1"})
    [Tie(field='account_id', value='a1', joins=True)]
    """
    if len(key) <= 1:
        return [Tie(name, value) for name, value in key.items()]
    whole = Tie(",".join(key), orjson.dumps(list(key.values())).decode()[:VALUE_MAX])
    return [whole, *(Tie(name, value, joins=False) for name, value in key.items())]


def as_text(value: Any) -> str:
    """A value of a key as filters name it."""
    return (value if isinstance(value, str) else orjson.dumps(value).decode())[:VALUE_MAX]


def _money(record: Mapping[str, Any], money: MoneySettings) -> tuple[str | None, str | None]:
    amount = lookup(record, money.field)
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        return None, None
    found = "" if money.currency is None else lookup(record, money.currency)
    currency = found if isinstance(found, str) else ""
    scaled = Decimal(str(amount)).scaleb(-money.decimals_of(currency))
    return (f"{scaled:f}", currency) if scaled.is_finite() else (None, None)
