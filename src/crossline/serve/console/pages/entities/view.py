"""``/entities``, ``/entities/{field}/{value}``: who this is now; hold, block until, release, with what that stops."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from crossline.basics.times import parse_instant_ms
from crossline.serve.console.api_calls import called
from crossline.serve.console.flash import saying
from crossline.serve.console.layout.numbers import counted
from crossline.serve.console.layout.shell import Crumb, ShortcutKey
from crossline.serve.console.pages.entities import rows
from crossline.serve.console.pages.entities.background import EntityCases, alerts_of_days, casework_of, consequence_of
from crossline.serve.console.pages.entities.consequence import Stopped
from crossline.serve.console.pages.entities.context import EntitiesPage, EntityPage
from crossline.serve.console.pages.entities.holds import panel_of, reason_of, until_of, why_not
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.problems import ProblemError, invalid
from crossline.serve.http.reads.rules import read_rules

ENTITY = "/v1/entities/{field}/{value:path}"
KEYS = (
    ShortcutKey(("h",), "hold"),
    ShortcutKey(("b",), "block until"),
    ShortcutKey(("l",), "lists"),
    ShortcutKey(("k",), "links"),
)


def ask(asked: PageRequest) -> EntitiesPage | Response:
    """Go to an entity by its id."""
    field, value = asked.query.get("field", "").strip(), asked.query.get("value", "").strip()
    if field and value:
        return moved(rows.entity_address(field, value))
    wrong = "Type the id too." if field else "Choose the field too." if value else ""
    return EntitiesPage(asked.shell("Entities"), fields_of(asked), field, value, wrong)


def fields_of(asked: PageRequest) -> tuple[str, ...]:
    """The fields of keys: of the rules' keys first, then whatever records have."""
    found: dict[str, None] = {}
    for row in read_rules(asked.parts.deps.config)[0]:
        body = row["body"]
        for name in ("group_by", "entity"):
            given = body.get(name) or ()
            found |= dict.fromkeys([given] if isinstance(given, str) else given)
    for spec in asked.parts.deps.config.streams.values():
        found |= dict.fromkeys(each for each in spec.columns if each.endswith(("_id", "_hash")))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Known:
    """All that is known of an entity."""

    api: Mapping[str, Any]
    casework: EntityCases
    recent: list[dict[str, Any]]
    past: Stopped


async def view(asked: PageRequest) -> EntityPage:
    """Who it is now; with ``?act=hold`` or ``block`` what that would stop, with ``?release=ID`` what is released."""
    known = await _known(asked)
    return _page(asked, known, dict(asked.query))


async def hold(asked: PageRequest) -> Any:
    """Hold it."""
    field, value = _whose(asked)
    form = asked.form
    try:
        if why := why_not(asked):
            raise invalid("hold", "nothing that can be held", why)
        until_ms = until_of(asked, form)
        if not form.get("reason", "").strip():
            raise invalid("reason", "nothing", "why it is held: another person will read it")
        body = {
            "key": {field: value},
            "action": form.get("action", "review"),
            "until": str(until_ms),
            "reason": form["reason"],
        }
        await called(asked, "POST", "/v1/holds", body=body)
    except ProblemError as error:
        if error.status >= 500 or error.status not in {409, 422}:
            raise
        return Shown(_page(asked, await _known(asked), form, reason_of(error)), error.status)
    until = asked.times.moment(until_ms).text
    text = f"{field} {value} is to be held until {until}; a pipeline loads it with its next batch."
    return saying(moved(rows.entity_address(field, value)), asked, text)


async def release(asked: PageRequest) -> Any:
    """Release a hold of it."""
    form = asked.form
    try:
        path, reason = {"hold_id": form.get("hold_id", "")}, form.get("reason", "").strip()
        if not reason:
            raise invalid("reason", "nothing", "why it is held no more: another person will read it")
        await called(asked, "DELETE", "/v1/holds/{hold_id}", path, {"reason": reason}, match=form.get("etag", ""))
    except ProblemError as error:
        if error.status not in {404, 409, 412, 422}:
            raise
        wanted = {"release": form.get("hold_id", ""), "reason": form.get("reason", "")}
        return Shown(_page(asked, await _known(asked), wanted, reason_of(error)), error.status)
    text = "The hold is released: records that come from now on are not held by it."
    return saying(moved(rows.entity_address(*_whose(asked))), asked, text)


def _whose(asked: PageRequest) -> tuple[str, str]:
    """Field and value: of the address, or of the form. Raises ProblemError (422) if neither names them."""
    given = asked.path if "field" in asked.path else asked.form
    field, value = given.get("field", ""), given.get("value", "")
    if not field or not value:
        raise invalid("value", "nothing", "the field of a key, and its value")
    return field, value


async def _known(asked: PageRequest) -> _Known:
    field, value = _whose(asked)
    api = await _fetched(asked, field, value)
    casework = await asyncio.to_thread(casework_of, asked, field, value)
    recent = await asyncio.to_thread(alerts_of_days, asked, {field: value})
    past = await asyncio.to_thread(consequence_of, asked, recent)
    return _Known(api, casework, recent, past)


async def _fetched(asked: PageRequest, field: str, value: str) -> Mapping[str, Any]:
    """The answer of the API; empty if nothing was delivered yet."""
    try:
        found: Mapping[str, Any] = await called(asked, "GET", ENTITY, {"field": field, "value": value})
    except ProblemError as error:
        if error.kind != "wrong-use":
            raise
        nothing = dict.fromkeys(("figures", "alerts", "decisions", "holds", "lists"), ())
        return {**nothing, "figures_as_of": "alerts", "alerts_more": False}
    return found


def _page(asked: PageRequest, known: _Known, wanted: Mapping[str, str], wrong: str = "") -> EntityPage:
    field, value = _whose(asked)
    at = rows.entity_address(field, value)
    api, work = known.api, known.casework
    held = tuple(rows.holds(asked, api["holds"], field, at))
    listed = tuple(rows.lists(asked, api["lists"]))
    why = why_not(asked)
    acting = "act" in wanted or ("action" in wanted and "release" not in wanted)
    releasing = next((each for each in held if each.hold_id == wanted.get("release")), None)
    days = rows.by_day((parse_instant_ms(each["event_time"]) for each in known.recent), asked.parts.now_ms())
    crumbs = (Crumb("Entities", "/entities"), Crumb(field), Crumb(value))
    return EntityPage(
        shell=asked.shell(f"{field} {value}", crumbs, KEYS),
        field=field,
        value=value,
        address=at,
        around=rows.links_address(field, value),
        stands=_state_of(held, listed),
        facts=_facts(work, known.recent),
        as_of=_as_of(asked, api),
        figures=tuple(rows.figures(api["figures"])),
        missing=tuple((each["rule_id"], each["why"]) for each in api.get("missing", ())),
        alerts=tuple(rows.alerts(asked, api["alerts"])),
        alerts_more=bool(api["alerts_more"]),
        decisions=tuple(rows.decisions(asked, api["decisions"])),
        holds=held,
        lists=listed,
        cases=tuple(rows.cases(work.cases)),
        links=rows.links(work.links),
        days=days,
        days_text=f"Alerts a day over {len(days)} days: {days[-1]:,} today, at most {max(days):,} on a day.",
        panel=panel_of(asked, field, value, at, wanted, known.past, wrong) if acting and not why else None,
        releasing=releasing if asked.allows("hold") else None,
        release_reason=wanted.get("reason", "") if releasing else "",
        release_wrong=wrong if "release" in wanted else "",
        why_not=why,
    )


def _state_of(held: tuple[Any, ...], listed: tuple[Any, ...]) -> tuple[str, str]:
    """State and word: what holds it weighs more than a list in which it stands."""
    if held:
        return "held", f"Held until {max(each.until.text for each in held)}"
    if listed:
        return "paused", "On list " + ", ".join(each.name for each in listed)
    return "off", "Not held"


def _facts(work: EntityCases, recent: list[dict[str, Any]]) -> tuple[str, ...]:
    going = sum(1 for each in work.cases if each["status"] not in {"resolved", "merged"})
    done = sum(1 for each in work.cases if each["status"] == "resolved")
    cases = (counted(going, "case") + " not resolved", f"{done:,} resolved") if work.cases else ("no case",)
    return (*cases, counted(len(recent), "alert") + " in 30 days")


def _as_of(asked: PageRequest, api: Mapping[str, Any]) -> str:
    """From where the figures are, and as of when."""
    figures = api["figures"]
    if api["figures_as_of"] == "replica":
        at = max((each["as_of"] for each in figures if each.get("as_of")), default=None)
        return "from a replica" + ("" if at is None else f", as of {rows.moment_of(asked, at, exact=True).text}")
    why = f": {api['figures_missing']}" if api.get("figures_missing") else ""
    if not figures:
        return f"no replica answers{why}"
    last = max(each["event_time"] for each in api["alerts"])
    return f"from its alerts, as of {rows.moment_of(asked, last).text}{why}"


PAGE = Page(
    "entities",
    (
        PageRoute("GET", "/entities", ask),
        PageRoute("GET", "/entities/{field}/{value:path}", view),
        PageRoute("POST", "/entities/hold", hold),
        PageRoute("POST", "/entities/release", release),
    ),
    label="Entities",
    group="Work",
    tab=True,
)
