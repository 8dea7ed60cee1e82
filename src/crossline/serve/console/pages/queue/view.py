"""``/queue``: the cases to work on next, and their value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from crossline.basics.times import parse_instant_ms
from crossline.serve.cases.queue import queries
from crossline.serve.cases.queue.navigation import linked_counts, newest, news
from crossline.serve.cases.queue.pages import QueueResult as Found
from crossline.serve.cases.queue.views import views
from crossline.serve.cases.rows import seq_of
from crossline.serve.cases.values import NoSuchCaseError
from crossline.serve.console.casework.actions import on_many, undone
from crossline.serve.console.casework.address import DECISIONS, FILTERS, SEVERITIES, SORTS, VIEWS, QueueQuery
from crossline.serve.console.casework.counts import count_text, lines, waiting
from crossline.serve.console.casework.forms import ASKS, ActionForm, ask_of
from crossline.serve.console.casework.rows import CaseRow, number_of, one_code, row_of
from crossline.serve.console.flash import saying
from crossline.serve.console.layout.shell import Crumb, ShortcutKey
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.pages.queue.context import Empty, MoreRows, NewsPart, PreviewPart, QueuePage, QueueTab
from crossline.serve.console.pages.queue.preview import preview_of
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.cases.requests import as_problems as answered
from crossline.serve.http.cases.requests import desk_of
from crossline.serve.http.etags import etag_of
from crossline.serve.http.paging import cursor_of, place_of
from crossline.serve.http.problems import ProblemError, not_found

ROWS, LISTED_MAX = 50, 1_000
TABS = ("unassigned", "mine", "open", "snoozed")
KEYS = (
    ShortcutKey(("j", "k"), "next, previous case"),
    ShortcutKey(("o",), "open the case"),
    ShortcutKey(("Space",), "preview"),
    ShortcutKey(("x",), "select"),
    ShortcutKey(("X",), "select up to here"),
    ShortcutKey(("*",), "select all of this filter"),
    ShortcutKey(("a",), "assign to me"),
    ShortcutKey(("s",), "snooze"),
    ShortcutKey(("e",), "escalate"),
    ShortcutKey(("r",), "resolve"),
    ShortcutKey(("h",), "hold"),
    ShortcutKey(("b",), "block until"),
    ShortcutKey(("m",), "merge"),
    ShortcutKey(("n",), "note"),
    ShortcutKey((".",), "show new cases"),
    ShortcutKey(("f",), "filter"),
)
WHY_NOT = "Your roles let you read cases and not change them: that takes write:cases."


def view(asked: PageRequest) -> Shown | Response:
    """The queue; without filters the view that the caller has as the default."""
    wanted = QueueQuery.of(asked.query)
    if not wanted.given and not asked.query:
        own = _default(asked)
        if own is not None and own.given:
            return moved(own.address())
    return Shown(page(asked, wanted))


def page(asked: PageRequest, wanted: QueueQuery, problem: str = "") -> QueuePage:
    """The page for those filters. ``problem``: why an act was not done."""
    desk, who = desk_of(asked.parts.deps), asked.who.name
    found = _page(asked, wanted)
    code = one_code(found.items)
    rows = _rows(asked, wanted, found.items, code)
    ask = _ask(asked, wanted, found, problem)
    last = newest(desk.file)
    crumbs = (Crumb("Queue", "/queue?view=open"), Crumb(wanted.label))
    shell = asked.shell("Queue", crumbs, KEYS, scripts=("js/queue.js",))
    return QueuePage(
        shell=shell,
        tabs=_tabs(asked, wanted),
        chips=wanted.chips(),
        order=tuple((label, wanted.having(sort=name).address(), name == wanted.sort) for name, label in SORTS.items()),
        order_label=SORTS.get(wanted.sort, ""),
        fields=_fields(wanted),
        kept=tuple((name, value) for name, value in wanted.given.items() if name in {"view", "sort"}),
        rows=rows,
        code=code,
        more=_more(wanted, found, who),
        total=found.total,
        news=wanted.address("/queue/news", seen=str(last)),
        empty=None if rows else _empty(asked, wanted),
        preview=preview_of(asked, wanted, found.items[0]["number"]) if rows else None,
        ask=ask,
        back=wanted.text(),
        view_label=wanted.label,
        query=wanted.given.get("q", ""),
        nonce=asked.nonce,
        token=asked.token,
        may_act=asked.allows("write:cases"),
        why_not="" if asked.allows("write:cases") else WHY_NOT,
    )


def more(asked: PageRequest) -> Any:
    """The next rows: as a part for the script, else as a page that begins with them."""
    wanted = QueueQuery.of(asked.query)
    if not asked.by_htmx:
        return Shown(page(asked, wanted))
    found = _page(asked, wanted)
    rows = _rows(asked, wanted, found.items, asked.query.get("code", ""))
    return MoreRows(rows, _more(wanted, found, asked.who.name))


def preview(asked: PageRequest) -> PreviewPart:
    """One case beside the list."""
    wanted = QueueQuery.of(asked.query)
    return PreviewPart(preview_of(asked, wanted, asked.path["case_id"]), asked.nonce, asked.token)


def whats_new(asked: PageRequest) -> NewsPart:
    """How many cases of the view were opened since it was shown."""
    wanted, seen = QueueQuery.of(asked.query), asked.whole("seen", 0, 10**15, 0)
    found = news(desk_of(asked.parts.deps), wanted.filter(), asked.who.name, seen)
    return NewsPart(found.count, found.critical, wanted.address(seen=str(seen)))


def act(asked: PageRequest) -> Any:
    """An act on many cases; if it is refused, the page shows the reason in its place."""
    wanted = QueueQuery.of_text(asked.form.get("back", ""))
    try:
        done = on_many(asked)
    except ProblemError as problem:
        if problem.status not in {403, 409, 412, 422}:
            raise
        return Shown(page(asked, wanted, problem.detail), problem.status)
    return saying(moved(wanted.address()), asked, done.caption, done.undo)


def undo(asked: PageRequest) -> Response:
    """Take back what was done at that moment."""
    at = asked.path["at"]
    if not (at.isascii() and at.isdigit() and len(at) < 16):
        raise not_found("act of that moment")
    message = undone(asked, int(at))
    referer = asked.request.headers.get("referer", "")
    back = referer.partition("://")[2].partition("/")[2]
    return saying(moved(f"/{back}" if back.startswith(("queue", "cases/")) else "/queue"), asked, message)


def _page(asked: PageRequest, wanted: QueueQuery) -> Found:
    cursor = asked.query.get("cursor", "")
    place = place_of(cursor, _of(wanted, asked.who.name), lambda found: len(found) > 2) if cursor else None
    desk, sort = desk_of(asked.parts.deps), wanted.sort
    which = wanted.filter()
    return answered(lambda: desk.page(which, asked.who.name, sort, place, ROWS))


def _of(wanted: QueueQuery, who: str) -> str:
    return f"queue:{etag_of([wanted.body(), who])}"


def _more(wanted: QueueQuery, found: Found, who: str) -> str:
    return "" if found.place is None else wanted.address("/queue/more", cursor=cursor_of(found.place, _of(wanted, who)))


def _rows(asked: PageRequest, wanted: QueueQuery, cases: Sequence[Mapping[str, Any]], code: str) -> tuple[CaseRow, ...]:
    seen = asked.whole("seen", 0, 10**15, -1)
    linked = linked_counts(desk_of(asked.parts.deps).file, [number_of(each) for each in cases]) if cases else {}
    return tuple(
        row_of(asked, each, wanted, linked.get(number_of(each), 0), None if seen < 0 else seen, code) for each in cases
    )


def _tabs(asked: PageRequest, wanted: QueueQuery) -> tuple[QueueTab, ...]:
    names = (*TABS, *([wanted.view] if wanted.view not in TABS else []))
    which = wanted.filter()
    filters = {name: replace(which, view=name) for name in names}  # type: ignore[arg-type]  # they are views
    counts = desk_of(asked.parts.deps).counts(asked.who.name, filters)
    return tuple(
        QueueTab(
            VIEWS.get(name, name), wanted.having(view=name).address(), count_text(counts[name]), name == wanted.view
        )
        for name in names
    )


def _fields(wanted: QueueQuery) -> tuple[tuple[str, str, str, tuple[str, ...]], ...]:
    choices = {"severity": SEVERITIES, "decision": DECISIONS}
    names = [name for name in FILTERS if name != "q"]
    return tuple((name, FILTERS[name], wanted.given.get(name, ""), choices.get(name, ())) for name in names)


def _empty(asked: PageRequest, wanted: QueueQuery) -> Empty:
    desk, filters = desk_of(asked.parts.deps), len(wanted.filters)
    if filters:
        without = QueueQuery({name: value for name, value in wanted.given.items() if name in {"view", "sort"}})
        count = count_text(desk.counts(asked.who.name, {"all": without.filter()})["all"])
        noun = "filter" if filters == 1 else "filters"
        are = "is" if count == "1" else "are"
        match = f"No case matches {filters} {noun}."
        return Empty(
            match,
            f"{count} {are} {wanted.label.lower()} without {'it' if filters == 1 else 'them'}.",
            "Clear filters",
            without.address(),
        )
    rows = desk.queue.rows(replace(wanted.filter(), view="resolved"), asked.who.name)
    last = max((desk.case(f"C-{row}")["resolved_at"] or "" for row in rows[-ROWS:].tolist()), default="")
    why = f"The last case was resolved at {asked.times.moment(parse_instant_ms(last)).text}." if last else ""
    nothing = {"open": "Nothing is open.", "mine": "You have no case.", "unassigned": "Every open case is assigned."}
    return Empty(
        nothing.get(wanted.view, f"No case is {wanted.label.lower()}."), why or "Cases come here as rules raise alerts."
    )


def _ask(asked: PageRequest, wanted: QueueQuery, found: Found, problem: str) -> ActionForm | None:
    """The form of an act, where one is asked for, or was refused."""
    name = asked.form.get("act") or asked.query.get("ask", "")
    given = asked.form or asked.query
    if name not in ASKS or not asked.allows("write:cases"):
        return None
    every = given.get("every") == "1"
    if every:
        cases = _all(asked, wanted) if len(found.items) < found.total <= LISTED_MAX else found.items
        cases = cases if found.total <= LISTED_MAX else []  # of more than that only the count is shown
        return ask_of(
            asked,
            name,
            cases,
            ("/queue/act", wanted.address(), wanted.text()),
            every=True,
            count=found.total,
            problem=problem,
        )
    names = given["case"].split("\n") if asked.form else asked.request.query_params.getlist("case")
    cases = _named(asked, names)
    return (
        ask_of(asked, name, cases, ("/queue/act", wanted.address(), wanted.text()), problem=problem) if cases else None
    )


def _named(asked: PageRequest, names: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Those of these cases that there are."""
    file, seqs = desk_of(asked.parts.deps).file, []
    for each in dict.fromkeys(names):
        with suppress(NoSuchCaseError):
            seqs.append(seq_of(file, each))
    return queries.listed(file, seqs)


def _all(asked: PageRequest, wanted: QueueQuery) -> Sequence[Mapping[str, Any]]:
    desk = desk_of(asked.parts.deps)
    return answered(lambda: desk.page(wanted.filter(), asked.who.name, wanted.sort, None, LISTED_MAX)).items


def _default(asked: PageRequest) -> QueueQuery | None:
    own = views(desk_of(asked.parts.deps).file, asked.who.name)
    return next((QueueQuery.of_body(each["query"]) for each in own if each["default"]), None)


PAGE = Page(
    "queue",
    (
        PageRoute("GET", "/queue", view),
        PageRoute("GET", "/queue/more", more),
        PageRoute("GET", "/queue/news", whats_new),
        PageRoute("GET", "/queue/preview/{case_id}", preview),
        PageRoute("POST", "/queue/act", act),
        PageRoute("POST", "/queue/undo/{at}", undo),
    ),
    label="Queue",
    group="Work",
    count=waiting,
    more=lines,
    tab=True,
)
