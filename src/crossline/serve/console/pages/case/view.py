"""``/cases/{case_id}``: what happened, how sure that is, and what can be done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from crossline.serve.cases.queue.navigation import next_case
from crossline.serve.console.casework.actions import on_one
from crossline.serve.console.casework.address import QueueQuery
from crossline.serve.console.casework.evidence import evidence_of
from crossline.serve.console.flash import saying
from crossline.serve.console.pages.case.context import StatePart
from crossline.serve.console.pages.case.evidence import changes, evidence, records, small
from crossline.serve.console.pages.case.holds import hold_fact, place
from crossline.serve.console.pages.case.page import page, state_of
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.cases.requests import case_of, desk_of
from crossline.serve.http.problems import ProblemError

REFUSED = {403, 404, 409, 412, 422}


async def view(asked: PageRequest) -> Shown:
    """The case. For a hold it is reckoned first what it will stop."""
    case = await asyncio.to_thread(case_of, asked.parts.deps, asked.path["case_id"])
    fact = await _fact(asked, case) if asked.query.get("ask") == "hold" else ""
    return Shown(await asyncio.to_thread(page, asked, case, fact=fact))


def state(asked: PageRequest) -> StatePart:
    """Who else looks, and what changed since the page was made."""
    return StatePart(state_of(asked, case_of(asked.parts.deps, asked.path["case_id"])))


def act(asked: PageRequest) -> Any:
    """An act; if it is refused, the page shows the reason in its place."""
    case_id, wanted = asked.path["case_id"], QueueQuery.of_text(asked.form.get("back", ""))
    follows = asked.form.get("next") == "1"
    behind = _behind(asked, wanted, case_id) if follows else (None, 0)
    try:
        done = on_one(asked, case_id)
    except ProblemError as problem:
        if problem.status not in REFUSED:
            raise
        case = case_of(asked.parts.deps, case_id)
        return Shown(page(asked, case, problem=problem.detail), problem.status)
    target, caption = wanted.address(f"/cases/{case_id}"), done.caption
    if follows:
        target = wanted.address(f"/cases/{behind[0]}") if behind[0] else wanted.address()
        caption += "" if behind[0] else f" That was the last of {behind[1]:,}."
    return saying(moved(target), asked, caption, done.undo)


async def hold(asked: PageRequest) -> Any:
    """Hold the entity of an alert, as the API does; if it is refused, the page shows the reason in its place."""
    case = await asyncio.to_thread(case_of, asked.parts.deps, asked.path["case_id"])
    wanted = QueueQuery.of_text(asked.form.get("back", ""))
    try:
        caption = await place(asked, case)
    except ProblemError as problem:
        if problem.status not in REFUSED:
            raise
        fact = await _fact(asked, case)
        return Shown(await asyncio.to_thread(page, asked, case, fact=fact, problem=problem.detail), problem.status)
    return saying(moved(wanted.address(f"/cases/{case['number']}")), asked, caption)


async def _fact(asked: PageRequest, case: Mapping[str, Any]) -> str:
    """What a hold would have stopped of what can be read back."""
    alert_id = asked.form.get("alert_id") or asked.query.get("alert", "")
    known = [each for each in case["alerts"] if "message" in each]
    alert = next((each for each in known if each["alert_id"] == alert_id), known[-1] if known else None)
    if alert is None or not asked.allows("read:records"):
        return ""
    try:
        evidence = await evidence_of(asked, alert["alert_id"])
    except ProblemError as problem:
        return f"What it would have stopped is not known: {problem.detail}"
    return await asyncio.to_thread(hold_fact, asked, case, alert, evidence)


def _behind(asked: PageRequest, wanted: QueueQuery, case_id: str) -> tuple[str | None, int]:
    """The next case of the view, and how many cases it has. Raises ProblemError (404)."""
    case_of(asked.parts.deps, case_id)
    return next_case(desk_of(asked.parts.deps), wanted.filter(), asked.who.name, wanted.sort, case_id)


PAGE = Page(
    "case",
    (
        PageRoute("GET", "/cases/{case_id}", view),
        PageRoute("GET", "/cases/{case_id}/state", state),
        PageRoute("GET", "/cases/{case_id}/small/{alert_id}", small),
        PageRoute("GET", "/cases/{case_id}/evidence/{alert_id}", evidence),
        PageRoute("GET", "/cases/{case_id}/changes/{alert_id}", changes),
        PageRoute("GET", "/cases/{case_id}/records/{alert_id}", records),
        PageRoute("POST", "/cases/{case_id}/act", act),
        PageRoute("POST", "/cases/{case_id}/hold", hold),
    ),
)
