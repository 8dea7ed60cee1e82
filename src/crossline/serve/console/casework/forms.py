"""What a person is asked before an act: count and consequence, the fields that it needs, the button that names it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from crossline.basics.times import instant_text
from crossline.serve.cases.actions.bulk import COUNT_FROM
from crossline.serve.console.casework.rows import sums
from crossline.serve.console.request import PageRequest

HOUR_MS = 3_600_000
# What a person may ask for, by its name in the address; some are done at once, and ask for nothing.
ASKS = ("assign", "snooze", "escalate", "note", "merge", "resolve", "reopen", "detach", "hold")
LABELS = (("fraud", "fraud"), ("good", "good"), ("", "no label"))


@dataclass(frozen=True, slots=True)
class ActionForm:
    """A form in its place on the page.

    ``act``: what is done. ``parts``: the text before, of (text, is strong). ``button``: names the act. ``cases``:
    on which; ``every``: on all of the filter. ``back``: the view, as text. ``count``: how many, which is typed where
    ``typed``. ``choices``: of the snooze or of the label, or cases that a merge may take, each with what both have.
    ``problem``: why it was not done.
    """

    act: str
    action: str
    parts: tuple[tuple[str, bool], ...]
    button: str
    cases: tuple[str, ...]
    every: bool
    back: str
    cancel: str
    count: int
    typed: bool = False
    version: str = ""
    alert: str = ""
    people: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    labelled: bool = True
    problem: str = ""
    fact: str = ""


def ask_of(
    asked: PageRequest,
    act: str,
    cases: Sequence[Mapping[str, Any]],
    places: tuple[str, str, str],
    *,
    every: bool = False,
    count: int | None = None,
    problem: str = "",
) -> ActionForm:
    """The form for an act on cases. ``places``: where it is sent, where one goes back to, and the view as text."""
    action, cancel, back = places
    many = len(cases) if count is None else count
    return ActionForm(
        act=act,
        action=action,
        parts=_parts(asked, act, cases, many),
        button=_button(act, many, one=len(cases) == 1 and count is None),
        cases=() if every else tuple(each["number"] for each in cases),
        every=every,
        back=back,
        cancel=cancel,
        count=many,
        typed=many > COUNT_FROM,
        version=str(cases[0]["version"]) if len(cases) == 1 and not every else "",
        alert=asked.query.get("alert", ""),
        people=_people(asked) if act in {"assign", "escalate"} else (),
        choices=_choices(asked, act),
        given=dict(asked.form),
        labelled=asked.allows("write:labels"),
        problem=problem,
    )


def counted(count: int, noun: str = "case") -> str:
    """``1 case``, ``12 cases``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _parts(asked: PageRequest, act: str, cases: Sequence[Mapping[str, Any]], many: int) -> tuple[tuple[str, bool], ...]:
    named, money = counted(many), sums(cases)
    others = Counter(each["assignee"] for each in cases if each["assignee"] not in {None, asked.who.name})
    held = f" {_others(others)}" if others else ""
    if act == "resolve":
        alerts = sum(each["alert_count"] for each in cases)
        worth = f", and {money} counts as fraud found if it is fraud" if money else ""
        text = f". {counted(alerts, 'alert')} get the label{worth}.{held}"
        return ("Resolve ", False), (named, True), (text, False)
    if act == "merge":
        numbers = sorted((int(each["number"][2:]), each["number"]) for each in cases)
        into = f" into {numbers[0][1]}, the oldest" if numbers and many > 1 else ""
        return ("Merge ", False), (named, True), (f"{into}. It can be undone for 10 minutes.{held}", False)
    what = {
        "assign": "Give ",
        "snooze": "Snooze ",
        "escalate": "Escalate ",
        "note": "Write a note under ",
        "reopen": "Open again ",
        "detach": "Give this alert a case of its own, out of ",
    }.get(act, "")
    ends = {
        "snooze": " until a time, or until a new alert joins.",
        "escalate": " to one person, out of the inbox of all others.",
    }
    return (what, False), (named, True), (f"{ends.get(act, '.')}{held}", False)


def _others(others: Mapping[str, int]) -> str:
    text = ", ".join(f"{count} to {name}" for name, count in sorted(others.items()))
    return f"Assigned already: {text}."


def _button(act: str, many: int, *, one: bool) -> str:
    name = {"note": "Write the note", "detach": "Detach the alert", "reopen": "Open again"}.get(act, act.capitalize())
    return name if one or act in {"note", "detach", "reopen"} else f"{name} {many:,}"


def _people(asked: PageRequest) -> tuple[str, ...]:
    return tuple(each.name for each in asked.parts.users.listed() if each.disabled_ms is None)


def _choices(asked: PageRequest, act: str) -> tuple[tuple[str, str], ...]:
    if act == "resolve":
        return LABELS
    if act != "snooze":
        return ()
    now_ms, zone = asked.parts.now_ms(), asked.preferred.tz
    morning = datetime.fromtimestamp(now_ms // 1000, zone).replace(hour=8, minute=0, second=0)
    days = [(1, "tomorrow 08:00"), (7 - morning.weekday(), "Monday 08:00")]
    found = [(instant_text(now_ms + hours * HOUR_MS), f"{hours} h") for hours in (1, 4)]
    found += [(instant_text(int((morning + timedelta(days=day)).timestamp()) * 1000), caption) for day, caption in days]
    return (*dict(found).items(), ("", "until a new alert joins"))
