"""``/audit``: who did what, when, and how it ended; by the same log as the API's."""

from __future__ import annotations

from datetime import datetime, time
from pathlib import Path
from urllib.parse import urlencode

import orjson

from crossline.basics.texts.problems import one_of, shown
from crossline.serve.console.layout.shell import NavLine
from crossline.serve.console.pages.audit.context import AuditPage, AuditRow
from crossline.serve.console.pages.audit.trail import AuditEvent, TrailQuery, find
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest
from crossline.serve.http.deps import required
from crossline.serve.http.problems import invalid

ROWS = 50
TEXT_MAX = 200
OUTCOMES = ("done", "refused", "failed", "begun")
_BEYOND = 10**18 - 1


def view(asked: PageRequest) -> AuditPage:
    """The last writes that the filters have."""
    path: Path = required(asked.parts.deps.audit, "audit log", "start crossline serve over a pipeline that has serve:")
    wanted = _query_of(asked)
    found = find(path, wanted, ROWS)
    kept = {name: asked.query[name] for name in ("who", "what", "since", "outcome") if asked.query.get(name)}
    older = urlencode({**kept, "before": found.older}) if found.older else ""
    return AuditPage(
        shell=asked.shell("Audit trail"),
        rows=tuple(_row(asked, each) for each in found.events),
        who=wanted.who,
        what=wanted.what,
        since=kept.get("since", ""),
        outcome=wanted.outcome,
        outcomes=OUTCOMES,
        filters=len(kept),
        looked=found.looked,
        older=f"/audit?{older}" if older else "",
        newest=NavLine("Newest", f"/audit?{urlencode(kept)}" if kept else "/audit", current=not wanted.before),
        digest=found.digest,
    )


def _query_of(asked: PageRequest) -> TrailQuery:
    outcome = asked.query.get("outcome", "")
    if outcome not in {"", *OUTCOMES}:
        raise invalid("?outcome", shown(outcome), one_of(OUTCOMES))
    return TrailQuery(
        who=asked.query.get("who", "")[:TEXT_MAX],
        what=asked.query.get("what", "")[:TEXT_MAX],
        outcome=outcome,
        since_ms=_since_ms(asked),
        before=asked.whole("before", 1, _BEYOND, 0),
    )


def _since_ms(asked: PageRequest) -> int:
    """The begin of the day, in the zone of who asks."""
    text = asked.query.get("since", "")
    if not text:
        return 0
    try:
        day = datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day of a zone that comes below
    except ValueError:
        raise invalid("?since", shown(text), "a day, such as 2026-11-24") from None
    return int(datetime.combine(day, time(), asked.preferred.tz).timestamp() * 1000)


def _row(asked: PageRequest, event: AuditEvent) -> AuditRow:
    detail = orjson.dumps(event.caption, option=orjson.OPT_INDENT_2).decode() if event.caption else ""
    moment = asked.times.moment(event.at_ms)
    return AuditRow(event.number, moment, event.who, event.by, event.what, event.resource, event.outcome, detail)


PAGE = Page("audit", (PageRoute("GET", "/audit", view),), label="Audit trail", group="Operations")
