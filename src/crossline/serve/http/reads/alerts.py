"""``/v1/alerts``: the alerts of the pipeline's store, as ``crossline alerts`` prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import shown
from crossline.basics.times import format_instant, parse_instant_ms
from crossline.io.stores.protocol import AlertFilter, Mark, Store
from crossline.io.tokens.lookup import key_as_tokens
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import etag_of
from crossline.serve.http.paging import LIMIT_DEFAULT, Cursor, Limit, cursor_of, mark_fits, page, place_of
from crossline.serve.http.principals import needs
from crossline.serve.http.problems import ProblemError, invalid, not_found
from crossline.serve.http.queries import json_answer, keys_in, only_known
from crossline.serve.http.reads.history import LakePlace, LakeReads

SEEN_MAX = 5_000  # alerts that one request looks at, where what is asked for has no index
PIECE = 500
CORRECTIONS_MAX = 1_000
_ID = re.compile(r"[0-9a-fA-F-]{4,36}")

Kind = Literal["alert", "correction", "shadow"]
Severity = Literal["info", "low", "medium", "high", "critical"]
Status = Literal["standing", "amended", "retracted", "reinstated"]
When = Annotated[str | None, Query(max_length=40, description="An instant of event time, RFC 3339 or milliseconds.")]
AlertId = Annotated[str, Path(description="Id of the alert, or its first characters (at least 4).")]


def alert_routes(deps: Dependencies, lake: LakeReads) -> APIRouter:
    """The routes of alerts."""
    routes = APIRouter(tags=["alerts"])

    @routes.get("/v1/alerts", openapi_extra=needs("read:alerts"), summary="List alerts, the latest first")
    async def alerts(
        request: Request,
        rule_id: Annotated[str | None, Query(max_length=200, description="Only of this rule.")] = None,
        severity: Annotated[Severity | None, Query(description="Only this severity.")] = None,
        kind: Annotated[Kind | None, Query(description="Only this kind.")] = None,
        status: Annotated[Status | None, Query(description="Only with this last word by corrections.")] = None,
        from_: Annotated[
            str | None, Query(alias="from", max_length=40, description="At this instant or later.")
        ] = None,
        to: When = None,
        q: Annotated[str | None, Query(max_length=200, description="Part of its id, record, key or message.")] = None,
        limit: Limit = LIMIT_DEFAULT,
        cursor: Cursor = None,
    ) -> Any:
        """Filter by ``key.FIELD=VALUE`` too.

        A page may have fewer alerts than ``limit``: read on while there is a ``next_cursor``. After the alerts of the
        store come the older ones of the pipeline's lake, where it has one.
        """
        only_known(request, "key.")
        keys = key_as_tokens(deps.config.streams, keys_in(request), make=False)
        bounds = instant("?from", from_), instant("?to", to)
        which = AlertFilter(rule_id, kind, severity, keys, *bounds)
        of = f"alerts:{etag_of([rule_id, kind, severity, keys, bounds, status, q])}"
        place = None if cursor is None else place_of(cursor, of, _place_fits)
        if place is not None and (there := LakePlace.of(place)) is not None:
            older = await lake.alerts(which, there, limit)
            rows = [each for each in older.rows if _fits(each, status, q)]
            return json_answer(page(rows, None if older.next is None else cursor_of(older.next.as_list(), of)))
        before: Mark | None = None if place is None else (place[0], place[1])
        try:
            found, last = await run_in_threadpool(_of_store, deps, which, before, limit, status, q)
        except (ProblemError, UsageError):
            if not lake.there:
                raise
            found, last = [], None  # nothing stores alerts but the lake
        if last is not None:
            return json_answer(page(found, cursor_of(last, of)))
        goes_on = await lake.older("alerts")
        return json_answer(page(found, None if goes_on is None else cursor_of(goes_on.as_list(), of)))

    @routes.get("/v1/alerts/{alert_id}", openapi_extra=needs("read:alerts"), summary="One alert, and its corrections")
    async def alert(request: Request, alert_id: AlertId) -> Any:
        """How the alert came about, and what later records made of it; from the lake where the store lacks it."""
        only_known(request)
        return json_answer(await alert_of(deps, lake, alert_id))

    _record_route(routes, deps, lake)
    return routes


def _record_route(routes: APIRouter, deps: Dependencies, lake: LakeReads) -> None:
    @routes.get(
        "/v1/alerts/{alert_id}/records",
        openapi_extra=needs("read:records"),
        summary="The records that an alert rests on, read from the lake or back from their source",
    )
    async def records(request: Request, alert_id: AlertId) -> Any:
        """``records_from`` counts those of the lake and those of the source.

        ``records_missing`` names what neither has any more.
        """
        only_known(request)
        _check_id(alert_id)
        done = await lake.show(
            ["alerts", "show", alert_id, "--pipeline", str(deps.pipeline), "--read-for", deps.waits.read_for, "--json"],
            not_found(f"alert {alert_id}"),
        )
        printed = orjson.loads(done.out.splitlines()[0])
        missing = printed.get("records_missing", [])
        if "records" not in printed:
            missing = [done.stderr]
        records = printed.get("records", [])
        read = sum(1 for each in records if each["found"])
        return json_answer(
            {
                "alert_id": printed["alert_id"],
                "records": records,
                "records_from": printed.get("records_from", {"lake": 0, "source": read}),
                "records_missing": missing,
            }
        )


async def alert_of(deps: Dependencies, lake: LakeReads, alert_id: str) -> dict[str, Any]:
    """The one alert whose id starts so, of the store or of the lake.

    Raises ProblemError if there is none, or several.
    """
    _check_id(alert_id)
    try:
        return await run_in_threadpool(_stored, deps, alert_id)
    except ProblemError as error:
        if not lake.there or error.kind not in {"not-found", "no-store"}:
            raise
    except UsageError:
        if not lake.there:
            raise
    return await lake.alert(alert_id)


def _stored(deps: Dependencies, alert_id: str) -> dict[str, Any]:
    with closing(deps.store()) as store:
        return the_alert(store, alert_id)


def _of_store(
    deps: Dependencies, which: AlertFilter, before: Mark | None, limit: int, status: Status | None, q: str | None
) -> tuple[list[Mapping[str, Any]], Mark | None]:
    with closing(deps.store()) as store:
        return listed(store, which, before, limit, matching(status, q, store))


def _place_fits(place: list[Any]) -> bool:
    return mark_fits(place) or LakePlace.of(place) is not None


def _fits(alert: Mapping[str, Any], status: Status | None, q: str | None) -> bool:
    """Whether an alert of the lake matches what the lake does not filter by."""
    wanted = None if q is None else q.casefold()
    return (wanted is None or any(wanted in each.casefold() for each in _texts(alert))) and status in {
        None,
        alert["status"],
    }


def listed(
    store: Store,
    which: AlertFilter,
    before: Mark | None,
    limit: int,
    matches: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
) -> tuple[list[Mapping[str, Any]], Mark | None]:
    """Up to ``limit`` alerts before a mark that match, and the mark to go on from; None if there are no more."""
    found: list[Mapping[str, Any]] = []
    seen = 0
    while True:
        piece = store.alerts_before(which, before, min(PIECE, limit + 1))
        for mark, each in piece:
            if len(found) == limit or seen == SEEN_MAX:
                return found, before
            row = matches(each)
            seen += 1
            before = mark
            if row is not None:
                found.append(row)
        if len(piece) < min(PIECE, limit + 1):
            return found, None


def matching(status: Status | None, q: str | None, store: Store) -> Callable[[Mapping[str, Any]], Any]:
    """The filter: an alert with its latest status; None if it does not match."""
    wanted = None if q is None else q.casefold()

    def row_of(alert: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if wanted is not None and not any(wanted in each.casefold() for each in _texts(alert)):
            return None
        word = last_word(corrections(store, alert))
        return {**alert, "status": word} if status in {None, word} else None

    return row_of


def _texts(alert: Mapping[str, Any]) -> Iterator[str]:
    yield from (str(alert[name]) for name in ("alert_id", "record_id", "message", "rule_id"))
    yield from map(str, alert["key"].values())


def corrections(store: Store, alert: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The corrections of ``alert``, in the order of their emission, each once; a correction has none."""
    if alert["corrects"] is not None:
        return []
    at_ms = parse_instant_ms(alert["event_time"])
    which = AlertFilter(alert["rule_id"], since_ms=at_ms, until_ms=at_ms + 1, corrects=alert["alert_id"])
    found = store.alerts(which, CORRECTIONS_MAX, newest_first=False)
    return list({each["alert_id"]: each for each in found}.values())


def last_word(found: list[dict[str, Any]]) -> str:
    """What corrections made of an alert in the end."""
    return str(found[-1]["outcome"]) if found else "standing"


def the_alert(store: Store, alert_id: str) -> dict[str, Any]:
    """The one alert whose id starts so. Raises ProblemError if there is none, or several."""
    _check_id(alert_id)
    found = {each.alert["alert_id"]: each.alert for each in store.find(alert_id)}
    if not found:
        raise not_found(f"alert {alert_id}", "GET /v1/alerts lists those there are")
    if len(found) > 1:
        raise invalid("alert_id", f"{alert_id}, with which several alerts start", "more of the id", status=409)
    alert = next(iter(found.values()))
    later = corrections(store, alert)
    return {**alert, "status": last_word(later), "corrections": later}


def _check_id(alert_id: str) -> None:
    if _ID.fullmatch(alert_id) is None:
        raise not_found(f"alert {shown(alert_id)}", "an id has the digits 0-9 and a-f, and hyphens")


def instant(pointer: str, text: str | None) -> int | None:
    """An instant that was given, in epoch milliseconds. Raises ProblemError if it is none."""
    if text is None:
        return None
    try:
        at_ms = parse_instant_ms(int(text) if re.fullmatch(r"-?[0-9]{1,19}", text, re.ASCII) else text)
        format_instant(at_ms)
    except (ValueError, OverflowError) as error:
        raise invalid(pointer, shown(text), "an instant such as 2026-01-01T00:00:00Z", str(error)) from None
    return at_ms
