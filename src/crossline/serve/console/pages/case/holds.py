"""Holding the entity of an alert: first what it would have stopped, then the hold itself, by the API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from crossline.backtest.investigation.timeline import RecordMark, timeline_of
from crossline.basics.texts.money import sums_text
from crossline.basics.times import instant_text, parse_instant_ms
from crossline.serve.console.api_calls import called
from crossline.serve.console.casework.evidence import words_of
from crossline.serve.console.casework.forms import HOUR_MS, counted
from crossline.serve.console.pages.entities.background import RECORDS_MAX, alerts_of_days, consequence_of, stands_on
from crossline.serve.console.pages.entities.consequence import PAST_MS, Record
from crossline.serve.console.request import PageRequest
from crossline.serve.http.cases.requests import desk_of
from crossline.serve.http.problems import invalid

SPANS = ((1, "1 h"), (4, "4 h"), (24, "24 h"), (168, "7 d"))


def spans(asked: PageRequest) -> tuple[tuple[str, str], ...]:
    """Until when a key may be held."""
    now_ms = asked.parts.now_ms()
    return tuple(
        (instant_text(now_ms + hours * HOUR_MS), f"{text}, {asked.times.moment(now_ms + hours * HOUR_MS).text}")
        for hours, text in SPANS
    )


def hold_fact(
    asked: PageRequest, case: Mapping[str, Any], alert: Mapping[str, Any], evidence: Mapping[str, Any]
) -> str:
    """What it would have stopped: records that were read back, what they are worth, and what else raised alerts."""
    found, words = timeline_of(evidence), words_of(asked, case)
    if not found.records:
        return "What it would have stopped is not known: no record was read back."
    records = [each for each in found.records if each.lane != 1 or found.shape != "correlation"]
    money = sum((Decimal(str(each.amount)) for each in records if each.amount is not None), Decimal())
    noun = records[0].stream.removesuffix("s")
    worth = f", {words.money(float(money), code=True)}" if any(each.amount is not None for each in records) else ""
    first, last = min(each.event_ms for each in records), max(each.event_ms for each in records)
    span = f"From {words.clock(first, 1000)} to {words.clock(last, 1000)}"
    text = f"{span} this would have stopped {counted(len(records), noun)}{worth}."
    known = {(each.stream, each.record_id) for each in records}
    return text + _blocked(asked, records) + _good(asked, records, words) + _further(asked, alert["key"], known)


def _blocked(asked: PageRequest, records: Sequence[RecordMark]) -> str:
    """Of records that were read back those that were stopped already."""
    if len(records) > RECORDS_MAX:
        return ""
    stands = stands_on(asked, [(each.stream, each.record_id) for each in records])
    count = sum(each == "block" for each in stands.values())
    return f" {count:,} of them {_was(count)} blocked already." if count else ""


def _further(asked: PageRequest, key: Mapping[str, Any], known: Collection[Record]) -> str:
    """Records of the key that raised alerts in the past 24 hours and were not read back."""
    since_ms = asked.parts.now_ms() - PAST_MS
    alerts = [
        each
        for each in alerts_of_days(asked, key)
        if parse_instant_ms(each["event_time"]) >= since_ms
        and (str(each["stream"]), str(each["record_id"])) not in known
    ]
    found = consequence_of(asked, alerts)
    if not found.records:
        return ""
    sums = sums_text(found.money.items(), " and ")
    worth = f", {sums}" if sums else ""
    return f" {found.records:,} more of the past 24 hours raised alerts and {_was(found.records)} let through{worth}."


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _good(asked: PageRequest, records: list[RecordMark], words: Any) -> str:
    """Records that would have been stopped and are labelled good."""
    store = desk_of(asked.parts.deps).cases
    labels = ((each, store.label(each.stream, each.record_id)) for each in records)
    good = [each for each, label in labels if label is not None and not label.is_fraud]
    if not good:
        return ""
    amounts = [words.money(each.amount) for each in good if each.amount is not None]
    of = f", of {amounts[0]}," if len(good) == 1 and amounts else ""
    return f" {'One' if len(good) == 1 else len(good)}{of} {'is' if len(good) == 1 else 'are'} labelled good."


async def place(asked: PageRequest, case: Mapping[str, Any]) -> str:
    """Place the hold that the form asks for; what was done, in words. Raises ProblemError with the API's text."""
    form = asked.form
    known = [each for each in case["alerts"] if "message" in each]
    alert = next((each for each in known if each["alert_id"] == form.get("alert_id")), None)
    if alert is None:
        raise invalid("/alert_id", "no alert of this case", "one whose entity is held")
    body = {
        "key": alert["key"],
        "stream": alert["stream"],
        "until": form.get("until", ""),
        "reason": form.get("reason", "").strip(),
    }
    hold = await called(asked, "POST", "/v1/holds", body={**body, "action": form.get("action", "block")})
    until = asked.times.moment(parse_instant_ms(hold["until"])).text
    return f"{', '.join(alert['key'].values())} is held until {until}."
