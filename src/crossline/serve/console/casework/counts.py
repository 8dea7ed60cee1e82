"""What stands behind the lines of the rail: cases on which a person must act, on every page by this one function."""

from __future__ import annotations

from typing import Any

from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.queue.views import views
from crossline.serve.console.casework.address import Wanted
from crossline.serve.console.layout.shell import Line
from crossline.serve.console.request import Asked
from crossline.serve.http.cases.requests import FilterBody

_LINES = {"mine": "My cases", "snoozed": "Snoozed"}


def waiting(asked: Asked) -> int | None:
    """Open cases that nobody has; None where this server has no cases."""
    desk = asked.parts.deps.desk
    return (
        None if desk is None else int(desk.counts(asked.who.name, {"w": QueueFilter(view="unassigned")})["w"]["count"])
    )


def lines(asked: Asked) -> tuple[Line, ...]:
    """One's own cases, those that are snoozed, and the views that one has saved."""
    desk = asked.parts.deps.desk
    if desk is None:
        return ()
    wanted = {name: QueueFilter(view=name) for name in _LINES}  # type: ignore[arg-type]  # they are views
    saved = views(desk.file, asked.who.name)
    named = {f"saved {each['name']}": FilterBody.model_validate(each["query"]).wanted() for each in saved}
    counts = desk.counts(asked.who.name, {**wanted, **named})
    here = _here(asked)
    made = [_line(label, Wanted({"view": name}), counts[name], here) for name, label in _LINES.items()]
    made += [
        _line(each["name"], Wanted.of_body(each["query"]), counts[f"saved {each['name']}"], here) for each in saved
    ]
    return tuple(made)


def said(count: dict[str, Any]) -> str:
    """A count as people read it."""
    return "10,000+" if count["more"] else f"{count['count']:,}"


def _line(label: str, wanted: Wanted, count: dict[str, Any], here: str) -> Line:
    address = wanted.address()
    return Line(label, address, address == here, said(count) if count["count"] else "")


def _here(asked: Asked) -> str:
    """The address of the view that is looked at; of other pages none."""
    return Wanted.of(asked.query).address() if asked.request.url.path == "/queue" else ""
