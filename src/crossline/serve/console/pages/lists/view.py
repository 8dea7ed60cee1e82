"""``/lists``, ``/lists/{name}``: entries of named lists, until when; put one in, end one, with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from crossline.basics.texts.problems import nearest, shown
from crossline.basics.times import FOREVER_MS
from crossline.rule_registry.sources.list_edit import ListEntry, entry_text
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.flash import saying
from crossline.serve.console.layout.shell import Crumb
from crossline.serve.console.pages.lists.context import EntryRow, ListPage, ListRow, ListsPage
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.etags import etag_of
from crossline.serve.http.problems import ProblemError, invalid, not_found
from crossline.serve.http.reads.lists import entries_of
from crossline.serve.http.reads.rules import read_rules
from crossline.settings.sources import ControlTopic

ENTRY = "/v1/lists/{name}/{entry:path}"
SHOWN = 200
WEEK_MS = 7 * 86_400_000
SCOPE = "write:lists"


def view(asked: PageRequest) -> ListsPage:
    """All lists; with ``?entry=…`` in which of them it stands."""
    found, now_ms = entries_of(asked.parts.deps.config), asked.parts.now_ms()
    entry = asked.query.get("entry", "").strip()
    readers = _readers(asked)
    rows = []
    for name in sorted(found):
        ends = [until_ms for _, until_ms in found[name] if until_ms > now_ms]
        has = bool(entry) and any(entry_text(value) == entry and until > now_ms for value, until in found[name])
        soon = sum(1 for each in ends if each <= now_ms + WEEK_MS)
        rows.append(ListRow(name, f"/lists/{segment(name)}", len(ends), soon, readers.get(name, ()), has))
    lists = asked.parts.deps.config.lists
    where = "topic " + lists.topic if isinstance(lists, ControlTopic) else "a folder" if lists else ""
    return ListsPage(asked.shell("Lists"), tuple(rows), entry, where)


async def one(asked: PageRequest) -> ListPage:
    """One list."""
    return await asyncio.to_thread(_page, asked, asked.query)


async def put(asked: PageRequest) -> Any:
    """Put an entry in, or give the one that is there another end."""
    name, form = asked.path["name"], asked.form
    value, until = form.get("value", "").strip(), form.get("until", "").strip()
    try:
        if not value:
            raise invalid("value", "nothing", "the value to put into the list")
        _check_reason(form)
        body = {"until": f"{until}:00Z" if until and not until.endswith("Z") else until or None}
        match = await asyncio.to_thread(_etag, asked, name, value)
        await called(asked, "PUT", ENTRY, {"name": name, "entry": value}, body, match=match)
    except ProblemError as error:
        return await _refused(asked, error)
    end = f"until {until.replace('T', ' ')} UTC" if until else "without an end"
    return _redirect(asked, name, f"{value} stands in {name} {end}; a pipeline loads it with its next batch.")


async def end(asked: PageRequest) -> Any:
    """Take an entry out."""
    name, form = asked.path["name"], asked.form
    value = form.get("value", "")
    try:
        _check_reason(form)
        await called(asked, "DELETE", ENTRY, {"name": name, "entry": value}, match=form.get("etag", ""))
    except ProblemError as error:
        return await _refused(asked, error)
    return _redirect(asked, name, f"{value} stands in {name} no more; a pipeline loads it with its next batch.")


def _check_reason(form: Mapping[str, str]) -> None:
    if not form.get("reason", "").strip():
        raise invalid("reason", "nothing", "the reason, for the audit trail")


def _redirect(asked: PageRequest, name: str, text: str) -> Response:
    return saying(moved(f"/lists/{segment(name)}"), asked, text)


async def _refused(asked: PageRequest, error: ProblemError) -> Shown:
    if error.status not in {404, 409, 412, 422}:
        raise error
    page = await asyncio.to_thread(_page, asked, asked.form, str(error.to_json()["detail"]))
    return Shown(page, error.status)


def _etag(asked: PageRequest, name: str, value: str) -> str | None:
    """Of the entry that is there; None if none is."""
    found = entries_of(asked.parts.deps.config).get(name, ())
    ends = [until_ms for each, until_ms in found if entry_text(each) == value]
    literal = next((each for each, _ in found if entry_text(each) == value), None)
    return None if literal is None else etag_of(ListEntry(name, literal, max(ends)).to_json())


def _page(asked: PageRequest, wanted: Mapping[str, str], wrong: str = "") -> ListPage:
    name, lists = asked.path["name"], asked.parts.deps.config.lists
    found = entries_of(asked.parts.deps.config)
    if name not in found:
        raise not_found(f"list {shown(name)}", nearest(name, found))
    text = wanted.get("q", "")
    matching = [each for each in found[name] if text.casefold() in entry_text(each[0]).casefold()]
    rows = tuple(_row(asked, name, value, until_ms) for value, until_ms in matching[:SHOWN])
    why_not = (
        "" if asked.allows(SCOPE) else f"To change a list needs the scope {SCOPE}, which {asked.who.name} has not."
    )
    if isinstance(lists, ControlTopic):
        why_not = f"The lists come from topic {lists.topic}: each is sent whole, with crossline rules publish-list."
    ending = next((each for each in rows if each.value == wanted.get("end")), None)
    return ListPage(
        shell=asked.shell(name, (Crumb("Lists", "/lists"), Crumb(name))),
        name=name,
        address=f"/lists/{segment(name)}",
        rows=rows,
        total=len(found[name]),
        matching=len(matching),
        rules=_readers(asked).get(name, ()),
        text=text,
        value=wanted.get("value", ""),
        until=wanted.get("until", ""),
        reason=wanted.get("reason", ""),
        ending=None if why_not else ending,
        why_not=why_not,
        wrong=wrong,
    )


def _row(asked: PageRequest, name: str, value: Any, until_ms: int) -> EntryRow:
    until = None if until_ms >= FOREVER_MS else asked.times.moment(until_ms)
    etag = etag_of(ListEntry(name, value, until_ms).to_json())
    return EntryRow(entry_text(value), until, etag, until_ms <= asked.parts.now_ms())


def _readers(asked: PageRequest) -> dict[str, tuple[str, ...]]:
    """By list the rules whose conditions name it."""
    found: dict[str, dict[str, None]] = {}
    for row in read_rules(asked.parts.deps.config)[0]:
        for name in _named(row["body"]):
            found.setdefault(name, {})[row["rule_id"]] = None
    return {name: tuple(rules) for name, rules in found.items()}


def _named(body: Any) -> set[str]:
    """The lists that a body names: ``{list: NAME}``, wherever it stands."""
    if isinstance(body, list):
        return set().union(*map(_named, body))
    if not isinstance(body, dict):
        return set()
    mine = {body["list"]} if set(body) == {"list"} and isinstance(body["list"], str) else set()
    return mine.union(*map(_named, body.values()))


PAGE = Page(
    "lists",
    (
        PageRoute("GET", "/lists", view),
        PageRoute("GET", "/lists/{name}", one),
        PageRoute("POST", "/lists/{name}/put", put),
        PageRoute("POST", "/lists/{name}/end", end),
    ),
    label="Lists",
    group="Rules",
)
