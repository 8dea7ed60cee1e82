"""Answers of the API of an entity, as rows of its page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from crossline.basics.times import parse_instant_ms
from crossline.serve.access.routes import is_part
from crossline.serve.cases.intake.facts import VALUE_MAX as LINKED_MAX
from crossline.serve.console.api_calls import segment
from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.numbers import held_against, number
from crossline.serve.console.pages.entities.context import (
    DecidedRow,
    EntityAlertRow,
    EntityCaseRow,
    EntityListRow,
    FigureRow,
    HoldRow,
    LinkRow,
)
from crossline.serve.console.request import PageRequest
from crossline.serve.http.etags import etag_of

DAYS, DAY_MS = 30, 86_400_000
VALUE_MAX = 1_000  # characters of a value that the API takes
_BEYOND = {
    ">=": lambda value, line: value >= line,
    ">": lambda value, line: value > line,
    "<=": lambda value, line: value <= line,
    "<": lambda value, line: value < line,
}
_GRADES = {"info": "low"}


def entity_address(field: str, value: str) -> str:
    """Where an entity's page is; of a value that cannot stand in an address its cases in the queue."""
    return _address("/entities", field, value)


def links_address(field: str, value: str) -> str:
    """Where the page of its links is; else as ``entity_address``.

    >>> links_address("card_hash", "a/b"), links_address("card_hash", "..")
    ('/links/card_hash/a%2Fb', '/queue?view=all&entity=card_hash%3A..')
    """
    return _address("/links", field, value)


def _address(page: str, field: str, value: str) -> str:
    if len(value) <= VALUE_MAX and all(map(is_part, (field, *value.split("/")))):
        return f"{page}/{segment(field)}/{segment(value)}"
    return f"/queue?{urlencode({'view': 'all', 'entity': f'{field}:{value[:LINKED_MAX]}'})}"


def moment_of(asked: PageRequest, text: str, *, exact: bool = False) -> Moment:
    """A time from the API."""
    return asked.times.moment(parse_instant_ms(text), exact=exact)


def figures(items: Iterable[Mapping[str, Any]]) -> Iterator[FigureRow]:
    """Each figure with what it is held against."""
    for each in items:
        value, line = each.get("value"), each.get("threshold")
        beyond = _BEYOND.get(str(each.get("operator")))
        numbers = isinstance(value, int | float) and isinstance(line, int | float)
        yield FigureRow(
            name=str(each.get("name") or "value"),
            rule=f"{each['rule_id']}, version {each['rule_version']}",
            address=f"/rules/{segment(each['rule_id'])}",
            window=_window(each),
            value=number(value),
            against=held_against(each.get("operator"), line),
            crossed=bool(beyond and numbers and beyond(value, line)),
        )


def _window(each: Mapping[str, Any]) -> str:
    """The span of its window, as far as it is known."""
    ends = each.get("window_start"), each.get("window_end")
    if None in ends:
        return ""
    return " to ".join(str(one)[11:19] for one in ends)


def alerts(asked: PageRequest, items: Iterable[Mapping[str, Any]]) -> Iterator[EntityAlertRow]:
    """Each alert with its sentence."""
    for each in items:
        yield EntityAlertRow(
            at=moment_of(asked, each["event_time"]),
            severity=_GRADES.get(each["severity"], each["severity"]),
            message=each["message"],
            rule=each["rule_id"],
            address=f"/rules/{segment(each['rule_id'])}",
            kind=each["kind"],
            status=each.get("status", "standing"),
        )


def decisions(asked: PageRequest, items: Iterable[Mapping[str, Any]]) -> Iterator[DecidedRow]:
    """Each decision as it stands now: after its revisions."""
    for each in items:
        now = (each.get("revisions") or [each])[-1]
        reasons = [one["rule_id"] for one in now.get("reasons", ()) if isinstance(one, Mapping) and "rule_id" in one]
        yield DecidedRow(
            at=moment_of(asked, each["event_time"]),
            address=f"/decisions/{segment(each['decision_id'])}",
            record_id=each["record_id"],
            decision=now["decision"],
            why=", ".join(dict.fromkeys(reasons)) + (", revised" if each.get("revisions") else ""),
        )


def holds(asked: PageRequest, items: Iterable[Mapping[str, Any]], field: str, at: str) -> Iterator[HoldRow]:
    """Each hold; by whom."""
    for each in items:
        more = {name: value for name, value in each["key"].items() if name != field}
        by = f"by {each['placed_by']}" if each.get("placed_by") else f"by {each['rule_id']}"
        yield HoldRow(
            hold_id=each["hold_id"],
            etag=etag_of(each),
            by=by,
            action=each["action"],
            until=moment_of(asked, each["until"]),
            reason=str(each.get("reason") or each.get("message") or ""),
            whole_key=", ".join(f"{name} {value}" for name, value in more.items()),
            release=f"{at}?release={segment(each['hold_id'])}#release",
        )


def lists(asked: PageRequest, items: Iterable[Mapping[str, Any]]) -> Iterator[EntityListRow]:
    """Each list in which it stands."""
    for each in items:
        until = None if each["until"] is None else moment_of(asked, each["until"])
        yield EntityListRow(each["list"], f"/lists/{segment(each['list'])}", until)


def cases(items: Iterable[Mapping[str, Any]]) -> Iterator[EntityCaseRow]:
    """Each case."""
    for each in items:
        whose = f", {each['assignee']}" if each["assignee"] else ""
        how = f", {each['label']}" if each["label"] else ""
        text = f"{each['status']}{how}{whose}"
        yield EntityCaseRow(each["number"], f"/cases/{segment(each['number'])}", each["sentence"], text)


def links(found: Iterable[tuple[str, str, int]]) -> tuple[LinkRow, ...]:
    """Other entities by the number of cases that they share, the most first."""
    rows = sorted(found, key=lambda each: (-each[2], each[0], each[1]))
    most = max((count for _, _, count in rows), default=1)
    return tuple(LinkRow(name, value, entity_address(name, value), n, n / most) for name, value, n in rows)


def by_day(at_ms: Iterable[int], now_ms: int) -> tuple[int, ...]:
    """How many there were on each of the last ``DAYS`` days, today last.

    >>> by_day([0, 1, 86_400_000], 86_400_000)[-2:]
    (2, 1)
    """
    counts = [0] * DAYS
    today = now_ms // DAY_MS
    for ms in at_ms:
        ago = today - ms // DAY_MS
        if 0 <= ago < DAYS:
            counts[DAYS - 1 - ago] += 1
    return tuple(counts)
