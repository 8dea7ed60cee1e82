"""``/decisions``, ``/decisions/{id}``: what was answered, why, and whether the stream decided otherwise since."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import one_of, shown
from crossline.basics.times import parse_instant_ms
from crossline.io.stores.protocol import DecisionFilter, Mark
from crossline.rules.policy.words import ACTIONS
from crossline.serve.access.roles import may_see
from crossline.serve.console.layout.shell import Crumb
from crossline.serve.console.pages.decisions.context import (
    DecisionPage,
    DecisionRow,
    DecisionsPage,
    ReasonRow,
    RevisionStep,
)
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest
from crossline.serve.http.paging import cursor_of, place_of
from crossline.serve.http.problems import ProblemError, invalid, not_found
from crossline.serve.http.reads.decisions import ID_CHARS, decision_of
from crossline.serve.http.reads.history import LakePlace

ROWS = 50
OF = "console decisions"


async def view(asked: PageRequest) -> DecisionsPage:
    """The last decisions that the pipeline delivered, revisions among them; then those of the lake."""
    wanted = asked.query.get("decision", "")
    if wanted not in {"", *ACTIONS}:
        raise invalid("?decision", shown(wanted), one_of(ACTIONS))
    record = asked.query.get("record", "")[:ID_CHARS]
    which = DecisionFilter(decision=wanted or None, record_id=record or None)
    found, goes_on = await _found(asked, which)
    kept = {name: value for name, value in (("decision", wanted), ("record", record)) if value}
    older = {**kept, "before": cursor_of(goes_on, OF)} if goes_on else {}
    return DecisionsPage(
        shell=asked.shell("Decisions"),
        rows=tuple(_row(asked, each) for each in found),
        words=tuple(ACTIONS),
        decision=wanted,
        record=record,
        filters=len(kept),
        older=f"/decisions?{urlencode(older)}" if older else "",
        newest=f"/decisions?{urlencode(kept)}" if asked.query.get("before") else "",
        of_lake=_lake_place(asked) is not None,
    )


async def one(asked: PageRequest) -> DecisionPage:
    """A decision with its revisions, reasons and receipt."""
    decision_id = asked.path["decision_id"]
    found = await decision_of(asked.parts.deps, asked.parts.lake, decision_id)
    if not may_see(asked.who, str(found["stream"])):
        raise not_found(f"decision {shown(decision_id)}")
    revisions: Sequence[Mapping[str, Any]] = found.get("revisions", ())
    now = revisions[-1] if revisions else found
    receipt = await asyncio.to_thread(_receipt, asked, decision_id)
    return DecisionPage(
        shell=asked.shell(f"Decision {decision_id[:8]}", (Crumb("Decisions", "/decisions"), Crumb(decision_id[:8]))),
        decision_id=decision_id,
        stream=str(found["stream"]),
        record_id=str(found["record_id"]),
        decision=str(now["decision"]),
        score=str(now.get("score", "")),
        policy=str(now.get("policy_version", "")),
        rules_digest=str(now.get("rules_digest", "")),
        event_time=str(found.get("event_time", "")),
        steps=(_step(asked, found, "decision"), *(_step(asked, each, "revision") for each in revisions)),
        reasons=tuple(_reason(each) for each in now.get("reasons", ())),
        degraded=tuple(_plain(each) for each in found.get("degraded", ())),
        receipt="" if receipt is None else orjson.dumps(receipt, option=orjson.OPT_INDENT_2).decode(),
        digest="" if receipt is None else str(receipt.get("digest", "")),
    )


async def _found(asked: PageRequest, which: DecisionFilter) -> tuple[Sequence[Mapping[str, Any]], list[str | int]]:
    """The rows of the page, and where the next one begins; empty: there is none."""
    lake, place = asked.parts.lake, _lake_place(asked)
    if lake is not None and place is not None:
        older = await lake.decisions(which, place, ROWS)
        return older.rows, [] if older.next is None else older.next.as_list()
    found = await asyncio.to_thread(_read_page, asked, which)
    rows = [each for _, each in found[:ROWS]]
    if len(found) > ROWS:
        return rows, list(found[ROWS - 1][0])
    goes_on = None if lake is None else await lake.older("decisions")
    return rows, [] if goes_on is None else goes_on.as_list()


def _read_page(asked: PageRequest, which: DecisionFilter) -> list[tuple[Mark, dict[str, Any]]]:
    """One more than are shown; none where the store is not made yet, since the pipeline delivered nothing."""
    mark = _mark(asked)
    try:
        with closing(asked.parts.deps.store()) as store:
            return store.decisions_before(which, mark, ROWS + 1)
    except UsageError:
        return []
    except ProblemError as problem:  # no sink stores decisions; the lake may have them
        if problem.kind != "no-store" or asked.parts.lake is None or not asked.parts.lake.there:
            raise
        return []


def _receipt(asked: PageRequest, decision_id: str) -> Mapping[str, Any] | None:
    kept = asked.parts.deps.decisions
    return None if kept is None else kept.receipt(decision_id)


def _mark(asked: PageRequest) -> Mark | None:
    place = _place(asked)
    return None if place is None else (place[0], place[1])


def _lake_place(asked: PageRequest) -> LakePlace | None:
    place = _place(asked)
    return None if place is None else LakePlace.of(place)


def _place(asked: PageRequest) -> list[Any] | None:
    cursor = asked.query.get("before", "")
    return place_of(cursor, OF, _fits) if cursor else None


def _fits(place: list[Any]) -> bool:
    return [type(each) for each in place] == [str, int] or LakePlace.of(place) is not None


def _row(asked: PageRequest, body: Mapping[str, Any]) -> DecisionRow:
    reasons = [_reason(each) for each in body.get("reasons", ())]
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    # A revision stands on the page of what it revises.
    decision_id = str(body.get("revises") or body["decision_id"])
    return DecisionRow(
        decision_id=str(body["decision_id"]),
        address=f"/decisions/{quote(decision_id, safe='')}",
        kind=str(body.get("kind", "decision")),
        at=asked.times.moment(_ms(body)),
        stream=str(body["stream"]),
        record_id=str(body["record_id"]),
        decision=str(body["decision"]),
        score=str(body.get("score", "")),
        why=f"{reasons[0].rule}{more}" if reasons else "",
    )


def _step(asked: PageRequest, body: Mapping[str, Any], kind: str) -> RevisionStep:
    """An answer, with how it was judged; a revision, with the correction that it follows from."""
    because = body.get("because")
    how = body.get("answered") if kind == "decision" else because and f"correction {because}"
    moment = asked.times.moment(_ms(body, "decided_at"), exact=True)
    return RevisionStep(moment, kind, str(body["decision"]), str(body.get("score", "")), _plain(how))


def _reason(body: Any) -> ReasonRow:
    if not isinstance(body, Mapping):
        return ReasonRow("", _plain(body), "")
    rule, version = body.get("rule_id", ""), body.get("rule_version")
    named = f"{rule}, version {version}" if rule and version else str(rule)
    return ReasonRow(named, str(body.get("message") or body.get("alert_id") or ""), str(body.get("score", "")))


def _plain(body: Any) -> str:
    """A text as it is, anything else as JSON; nothing as nothing."""
    if body is None:
        return ""
    return body if isinstance(body, str) else orjson.dumps(body).decode()


def _ms(body: Mapping[str, Any], name: str = "event_time") -> int:
    """A time of a decision. Raises ProblemError (500) where the store has none."""
    try:
        return parse_instant_ms(body[name])
    except (KeyError, ValueError) as error:
        raise ProblemError(500, "state", f"found a decision whose {name} is no time: {error}") from None


PAGE = Page(
    "decisions",
    (PageRoute("GET", "/decisions", view), PageRoute("GET", "/decisions/{decision_id}", one)),
    label="Decisions",
    group="Work",
)
