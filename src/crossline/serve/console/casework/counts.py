"""What stands behind the lines of the rail: cases on which a person must act, on every page by this one function."""

from __future__ import annotations

from typing import Any

from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.queue.views import views
from crossline.serve.console.casework.address import QueueQuery
from crossline.serve.console.layout.shell import NavLine
from crossline.serve.console.request import PageRequest
from crossline.serve.http.cases.requests import FilterBody

_LINES = {"mine": "My cases", "snoozed": "Snoozed"}


def waiting(asked: PageRequest) -> int | None:
    """Open cases without an assignee; None if this server has no cases."""
    desk = asked.parts.deps.desk
    return (
        None if desk is None else int(desk.counts(asked.who.name, {"w": QueueFilter(view="unassigned")})["w"]["count"])
    )


def lines(asked: PageRequest) -> tuple[NavLine, ...]:
    """One's own cases, those that are snoozed, and the views that one has saved."""
    desk = asked.parts.deps.desk
    if desk is None:
        return ()
    wanted = {name: QueueFilter(view=name) for name in _LINES}  # type: ignore[arg-type]  # they are views
    saved = views(desk.file, asked.who.name)
    named = {f"saved {each['name']}": FilterBody.model_validate(each["query"]).wanted() for each in saved}
    counts = desk.counts(asked.who.name, {**wanted, **named})
    here = _here(asked)
    made = [_line(label, QueueQuery({"view": name}), counts[name], here) for name, label in _LINES.items()]
    made += [
        _line(each["name"], QueueQuery.of_body(each["query"]), counts[f"saved {each['name']}"], here) for each in saved
    ]
    return tuple(made)


def count_text(count: dict[str, Any]) -> str:
    """A count as people read it."""
    return "10,000+" if count["more"] else f"{count['count']:,}"


def _line(label: str, wanted: QueueQuery, count: dict[str, Any], here: str) -> NavLine:
    address = wanted.address()
    return NavLine(label, address, address == here, count_text(count) if count["count"] else "")


def _here(asked: PageRequest) -> str:
    """The address of the view that is looked at; of other pages none."""
    return QueueQuery.of(asked.query).address() if asked.request.url.path == "/queue" else ""
