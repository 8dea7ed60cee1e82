"""``/v1/decisions``: what was answered, what the stream decided since, and the receipt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import shown
from crossline.io.stores.protocol import DecisionFilter, Store
from crossline.serve.decisions.store import DecisionStore
from crossline.serve.http.deps import Dependencies, required
from crossline.serve.http.etags import etag_of
from crossline.serve.http.paging import LIMIT_DEFAULT, Cursor, Limit, cursor_of, page, place_of
from crossline.serve.http.principals import Asking, Principal, may_read, needs
from crossline.serve.http.problems import ProblemError, not_allowed, not_found
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.history import LakeReads

ID_CHARS = 200
REVISIONS_MAX = 1_000
_TODO = "start crossline serve over a pipeline that has serve: in its file"


DecisionId = Annotated[str, Path(description="Id of the decision.")]


def decision_routes(deps: Dependencies, lake: LakeReads) -> APIRouter:
    """The routes of decisions that were made."""
    routes = APIRouter(tags=["decisions"])

    @routes.get("/v1/decisions", openapi_extra=needs("read:records"), summary="The decisions on a record")
    async def decisions(
        request: Request,
        who: Asking,
        record_id: Annotated[str, Query(min_length=1, max_length=1_000, description="Id of the record.")],
        stream: Annotated[str | None, Query(max_length=200, description="Its stream; else of any.")] = None,
        limit: Limit = LIMIT_DEFAULT,
        cursor: Cursor = None,
    ) -> Any:
        """In order of their ids, each with its revisions. Those of the lake, where no store has any."""
        only_known(request)
        of = f"decisions:{etag_of([record_id, stream])}"
        after = place_of(cursor, of, _is_id)[0] if cursor is not None else None
        found = await _on_record(deps, lake, record_id, stream, after, limit + 1)
        more = cursor_of([found[limit - 1]["decision_id"]], of) if len(found) > limit else None
        return json_answer(page([each for each in found[:limit] if may_read(who, str(each["stream"]))], more))

    @routes.get(
        "/v1/decisions/{decision_id}",
        openapi_extra=needs("read:records"),
        summary="A decision, with its revisions",
    )
    async def decision(request: Request, who: Asking, decision_id: DecisionId) -> Any:
        """As it was answered, and what the stream decided otherwise since; of the lake, where no store has it."""
        only_known(request)
        try:
            known = await decision_of(deps, lake, decision_id)
        except ProblemError as problem:
            _seen(who, partial(_raised, problem))
            raise
        found = _seen(who, lambda: known)
        return json_answer(found, headers={"ETag": etag_of(found)})

    @routes.get(
        "/v1/decisions/{decision_id}/receipt",
        openapi_extra=needs("read:records"),
        summary="The receipt of a decision",
    )
    def receipt(request: Request, who: Asking, decision_id: DecisionId) -> Any:
        """What it rests on, for ``crossline verify``."""
        only_known(request)
        kept: DecisionStore = required(deps.decisions, "ledger of what was answered", _TODO)
        _seen(who, lambda: the_decision(deps, decision_id))
        found = kept.receipt(decision_id) if len(decision_id) <= ID_CHARS else None
        if found is None:
            raise not_found(
                f"receipt of decision {shown(decision_id)}", "a decision that this API gave has one; a dry run has none"
            )
        return json_answer(found, headers={"ETag": etag_of(found)})

    return routes


def _seen(who: Principal, find: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What ``find`` gives, where ``who`` may see it; else the answer is that to what is not there."""
    try:
        found = find()
    except ProblemError as problem:
        if problem.status == HTTPStatus.NOT_FOUND and not may_read(who):
            raise not_allowed() from None
        raise
    if not may_read(who, str(found["stream"])):
        raise not_allowed()
    return found


async def _on_record(
    deps: Dependencies, lake: LakeReads, record_id: str, stream: str | None, after: str | None, limit: int
) -> list[Mapping[str, Any]]:
    """As ``found_decisions`` has them, else as the lake does."""
    try:
        found = await run_in_threadpool(found_decisions, deps, record_id, stream, after, limit)
    except (ProblemError, UsageError):
        if not lake.there:
            raise
        found = []
    if found or not lake.there:
        return found
    of_lake = await lake.on_record(record_id, stream)
    return [each for each in of_lake if after is None or each["decision_id"] > after][:limit]


def _raised(problem: ProblemError) -> Mapping[str, Any]:
    raise problem


async def decision_of(deps: Dependencies, lake: LakeReads | None, decision_id: str) -> Mapping[str, Any]:
    """A decision with its revisions: as ``the_decision`` has it, else as the lake does."""
    try:
        return await run_in_threadpool(the_decision, deps, decision_id)
    except ProblemError as problem:
        if (
            lake is None
            or not lake.there
            or problem.kind not in {"not-found", "no-store"}
            or len(decision_id) > ID_CHARS
        ):
            raise
        found = await lake.decision(decision_id)
        if found is None:
            raise
        return found


def the_decision(deps: Dependencies, decision_id: str) -> Mapping[str, Any]:
    """A decision with its revisions: as it was answered here, else as the pipeline's store has it."""
    kept = deps.decisions
    if len(decision_id) > ID_CHARS:
        raise not_found(f"decision {shown(decision_id)}")
    found = None if kept is None else kept.decision(decision_id)
    if kept is not None and found is not None:
        return {**found, "revisions": list(kept.revisions(decision_id))}
    if kept is None or _has_store(deps):
        with closing(deps.store()) as store:
            stored = [each for each in store.find_decisions(decision_id, 1) if each["decision_id"] == decision_id]
            if stored:
                first = stored[0]
                return _with_revisions(first, _stored(store, first["record_id"], first["stream"]))
    raise not_found(f"decision {shown(decision_id)}", "GET /v1/decisions?record_id=… finds those on a record")


def found_decisions(
    deps: Dependencies,
    record_id: str,
    stream: str | None,
    after: str | None,
    limit: int,
    opened: Store | None = None,
) -> list[Mapping[str, Any]]:
    """The decisions on a record, those that were answered here before those that only the store has.

    ``opened``: the pipeline's store, where the caller has it open.
    """
    found: dict[str, Mapping[str, Any]] = {}
    kept = deps.decisions
    if kept is not None:
        for each in kept.decisions(record_id, stream, after, limit):
            found[each["decision_id"]] = {**each, "revisions": list(kept.revisions(each["decision_id"]))}
    if opened is not None or kept is None or _has_store(deps):
        with nullcontext(opened) if opened is not None else closing(deps.store()) as store:
            stored = _stored(store, record_id, stream)
        for each in stored:
            if not each.get("revises") and (after is None or each["decision_id"] > after):
                found.setdefault(each["decision_id"], _with_revisions(each, stored))
    return [found[name] for name in sorted(found)][:limit]


def _has_store(deps: Dependencies) -> bool:
    return any(each.kind in {"sqlite", "postgres"} for each in deps.config.sinks)


def _stored(store: Store, record_id: str, stream: str | None) -> list[dict[str, Any]]:
    which = DecisionFilter(stream=stream, record_id=record_id)
    found = list(store.decisions(which, REVISIONS_MAX, newest_first=False))
    return sorted(found, key=lambda each: int(each.get("revision", 0)))


def _with_revisions(first: Mapping[str, Any], revisions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {**first, "revisions": [each for each in revisions if each.get("revises") == first["decision_id"]]}


def _is_id(place: list[Any]) -> bool:
    return len(place) == 1 and isinstance(place[0], str)
