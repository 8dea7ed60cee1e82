"""The cases that a page shows, by its address: a link to a view opens the same view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pydantic import ValidationError

from crossline.basics.texts.problems import shown
from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.http.cases.requests import FilterBody
from crossline.serve.http.problems import ProblemError, invalid

VIEWS = {
    "unassigned": "Unassigned",
    "mine": "Mine",
    "open": "All open",
    "snoozed": "Snoozed",
    "escalated": "Escalated",
    "resolved": "Resolved",
    "all": "All",
}
SORTS = {"newest": "Newest alert first", "severity": "Gravest first", "money": "Most money first"}
SEVERITIES = ("low", "medium", "high", "critical")
DECISIONS = ("allow", "review", "step_up", "block")
# What the address calls a filter, and what a chip calls it.
FILTERS = {
    "severity": "Severity",
    "stream": "Stream",
    "rule": "Rule",
    "entity": "Entity",
    "decision": "Decision",
    "money": "At risk",
    "from": "From",
    "to": "To",
    "assignee": "Assignee",
    "q": "Words",
}
NAMES = ("view", *FILTERS, "sort")


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that is set. ``without``: the address where it is not."""

    label: str
    value: str
    without: str


@dataclass(frozen=True, slots=True)
class QueueQuery:
    """A view, its filters and its order, by their names in the address; what is left out is as by default."""

    given: Mapping[str, str]

    @classmethod
    def of(cls, query: Mapping[str, str]) -> QueueQuery:
        """What stands in a query, but for what is no filter."""
        return cls({name: query[name].strip() for name in NAMES if query.get(name, "").strip()})

    @classmethod
    def of_text(cls, text: str) -> QueueQuery:
        """Inverse of ``text``."""
        return cls.of(dict(parse_qsl(text[:4_000])))

    @classmethod
    def of_body(cls, body: Mapping[str, Any]) -> QueueQuery:
        """Out of a view that is saved."""
        named = {**body, "rule": body.get("rule_id")}
        key = body.get("key") or {}
        if key:
            named["entity"] = ":".join(next(iter(key.items())))
        return cls.of({name: f"{named[name]}" for name in NAMES if named.get(name) is not None})

    @property
    def view(self) -> str:
        """The view's name."""
        return self.given.get("view", "open")

    @property
    def sort(self) -> str:
        """The order."""
        return self.given.get("sort", "newest")

    @property
    def label(self) -> str:
        """The view as people call it."""
        return VIEWS.get(self.view, self.view)

    @property
    def filters(self) -> dict[str, str]:
        """What is set besides the view and the order."""
        return {name: value for name, value in self.given.items() if name in FILTERS}

    def body(self) -> dict[str, Any]:
        """As the API takes it. Raises ProblemError (422) if it cannot."""
        found: dict[str, Any] = {"view": self.view, "sort": self.sort}
        for name, value in self.filters.items():
            if name == "entity":
                field, colon, of = value.partition(":")
                if not (field and colon and of):
                    raise invalid("?entity", shown(value), "FIELD:VALUE, such as beneficiary_id:b0005534")
                found["key"] = {field: of}
            elif name == "money":
                found["money"] = _number(value)
            else:
                found[{"rule": "rule_id"}.get(name, name)] = _instant(value) if name in {"from", "to"} else value
        return found

    def filter(self) -> QueueFilter:
        """As the desk takes it. Raises ProblemError (422) if it cannot."""
        try:
            return FilterBody.model_validate(self.body()).wanted()
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(each) for each in first["loc"])
            raise invalid(f"?{name}", shown(first.get("input")), str(first["msg"]).lower()) from None
        except ProblemError:
            raise

    def having(self, **changes: str) -> QueueQuery:
        """With other values; an empty one leaves a name out."""
        made = {**self.given, **changes}
        return QueueQuery({name: made[name] for name in NAMES if made.get(name)})

    def text(self) -> str:
        """As it stands behind the question mark."""
        return urlencode({name: self.given[name] for name in NAMES if name in self.given})

    def address(self, path: str = "/queue", **more: str) -> str:
        """Of a page that shows it."""
        text = urlencode({**{name: self.given[name] for name in NAMES if name in self.given}, **more})
        return f"{path}?{text}" if text else path

    def chips(self) -> tuple[Chip, ...]:
        """The filters that are set."""
        return tuple(
            Chip(FILTERS[name], _label_of(name, value), self.having(**{name: ""}).address() or "/queue")
            for name, value in self.filters.items()
        )


def _label_of(name: str, value: str) -> str:
    if name == "severity" and value != SEVERITIES[-1]:
        return f"{value} and above"
    if name == "money":
        return f"{value} and more"
    if name == "entity":
        return value.partition(":")[2]
    return value.replace("_", " ") if name == "decision" else value


def _number(value: str) -> float:
    try:
        return float(value.replace(",", ""))
    except ValueError:
        raise invalid("?money", shown(value), "a number, such as 1000") from None


def _instant(value: str) -> str:
    """A day is its beginning."""
    return f"{value}T00:00:00Z" if len(value) == 10 else value
