"""``/views``: the views that a person has saved; the default one is what ``/queue`` opens with."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from crossline.serve.cases.queue import views as kept
from crossline.serve.console.casework.address import SORTS, QueueQuery
from crossline.serve.console.casework.counts import count_text as counted
from crossline.serve.console.flash import saying
from crossline.serve.console.layout.shell import Crumb
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.pages.queue.preview import WHY_NOT
from crossline.serve.console.pages.views.context import SavedView, ViewsPage
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.cases.requests import as_problems as answered
from crossline.serve.http.cases.requests import desk_of
from crossline.serve.http.problems import ProblemError


def view(asked: PageRequest) -> ViewsPage:
    """One's own, and the form that saves the view that one came from."""
    return _page(asked, QueueQuery.of(asked.query))


def save(asked: PageRequest) -> Any:
    """Save a view under a name; one of that name is changed."""
    wanted, name = QueueQuery.of_text(asked.form.get("query", "")), asked.form.get("name", "").strip()
    body, default = wanted.body(), asked.form.get("default") == "1"
    wanted.filter()
    file = desk_of(asked.parts.deps).file
    try:
        answered(lambda: kept.put(file, asked.who.name, name, body, default=default))
    except ProblemError as problem:
        return Shown(_page(asked, wanted, problem.detail, name), problem.status)
    return saying(moved(wanted.address()), asked, f"The view {name} is saved.")


def forget(asked: PageRequest) -> Response:
    """Forget a view."""
    name = asked.form.get("name", "")
    answered(lambda: kept.remove(desk_of(asked.parts.deps).file, asked.who.name, name), "view of that name")
    return saying(moved("/views"), asked, f"The view {name} is forgotten.")


def _page(asked: PageRequest, wanted: QueueQuery, problem: str = "", name: str = "") -> ViewsPage:
    desk, who = desk_of(asked.parts.deps), asked.who.name
    own = [(each, QueueQuery.of_body(each["query"])) for each in kept.views(desk.file, who)]
    counts = desk.counts(who, {each["name"]: mine.filter() for each, mine in own}) if own else {}
    may_act = asked.allows("write:cases")
    return ViewsPage(
        shell=asked.shell("Saved views", (Crumb("Queue", "/queue"), Crumb("Saved views"))),
        views=tuple(
            SavedView(each["name"], _message(mine), mine.address(), counted(counts[each["name"]]), each["default"])
            for each, mine in own
        ),
        query=wanted.text(),
        caption=_message(wanted) if wanted.given else "",
        token=asked.token,
        may_act=may_act,
        why_not="" if may_act else WHY_NOT,
        problem=problem,
        name=name,
    )


def _message(wanted: QueueQuery) -> str:
    filters = [f"{each.label.lower()} {each.value}" for each in wanted.chips()]
    return ", ".join([wanted.label, *filters, SORTS.get(wanted.sort, wanted.sort).lower()])


PAGE = Page(
    "views",
    (PageRoute("GET", "/views", view), PageRoute("POST", "/views", save), PageRoute("POST", "/views/forget", forget)),
)
