"""The parts of a case that the engine judges anew: the window, figures, records, and what would not have fired."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from crossline.backtest.investigation.timeline import timeline_of
from crossline.basics.texts.problems import shown as quoted
from crossline.serve.console.api_calls import answered
from crossline.serve.console.casework.changes import changes_of
from crossline.serve.console.casework.evidence import as_csv, chart_of, evidence_of, evidence_view, width_of, words_of
from crossline.serve.console.layout.shell import Crumb
from crossline.serve.console.pages.case.context import ChangesPage, ChangesPart, EvidencePage, EvidencePart, SmallPart
from crossline.serve.console.request import PageRequest
from crossline.serve.http.cases.requests import case_of
from crossline.serve.http.problems import not_found

SMALL = 352
ROUTE = "/v1/alerts/{alert_id}/counterfactuals"


async def evidence(asked: PageRequest) -> Any:
    """The window, the figures and the records: a part of the page, or a page for who has no script."""
    case, alert_id = await _case(asked)
    body = await evidence_of(asked, alert_id)
    found = await asyncio.to_thread(evidence_view, asked, case, body, width_of(asked))
    if asked.by_htmx:
        return EvidencePart(found, asked.nonce)
    number = case["number"]
    return EvidencePage(
        _shell(asked, number, "Evidence"), number, found, f"/cases/{number}?alert={alert_id}", asked.nonce
    )


async def small(asked: PageRequest) -> Any:
    """The window for the preview; nothing where the caller looks at another case by then."""
    case, alert_id = await _case(asked)
    asking = asyncio.ensure_future(evidence_of(asked, alert_id))
    asked.parts.judged.only_last(asked.session_id or asked.who.name, asking)
    await asyncio.wait([asking])
    if asking.cancelled():
        return Response(status_code=204)
    found, words = timeline_of(asking.result()), words_of(asked, case)
    drawing = await asyncio.to_thread(chart_of, found, SMALL, words)
    figures = tuple(
        (each.name.replace("_", " "), words.value(each.value, each.unit), words.held(each)) for each in found.figures
    )
    return SmallPart(drawing, figures)


async def changes(asked: PageRequest) -> Any:
    """What would not have fired; while it is looked for, how far that is."""
    case, alert_id = await _case(asked)
    status, body = await answered(asked, "GET", ROUTE, {"alert_id": alert_id})
    money = asked.parts.settings.cases.money
    found = changes_of(status, body, words_of(asked, case), money.field if money is not None else None)
    path, number = f"/cases/{case['number']}/changes/{alert_id}", case["number"]
    if asked.by_htmx:
        return ChangesPart(found, path, asked.nonce)
    shell = _shell(asked, number, "What would not have fired")
    return ChangesPage(shell, number, found, path, f"/cases/{number}?alert={alert_id}", asked.nonce)


async def records(asked: PageRequest) -> Response:
    """The records as a CSV file."""
    case, alert_id = await _case(asked)
    text = await asyncio.to_thread(as_csv, asked, case, await evidence_of(asked, alert_id))
    headers = {"Content-Disposition": f'attachment; filename="{case["number"]}-{alert_id[:8]}.csv"'}
    return Response(text, headers=headers, media_type="text/csv; charset=utf-8")


async def _case(asked: PageRequest) -> tuple[Mapping[str, Any], str]:
    """The case of the address, and the alert of it. Raises ProblemError (404)."""
    case = await asyncio.to_thread(case_of, asked.parts.deps, asked.path["case_id"])
    alert_id = asked.path["alert_id"]
    if not any(each["alert_id"] == alert_id for each in case["alerts"]):
        raise not_found(f"alert {quoted(alert_id)} in {case['number']}")
    return case, alert_id


def _shell(asked: PageRequest, number: str, title: str) -> Any:
    return asked.shell(
        f"{number}: {title}", (Crumb("Queue", "/queue"), Crumb(number, f"/cases/{number}"), Crumb(title))
    )
