"""``/v1/labels`` and ``/v1/cases``: what people found out about records, and what they do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from fastapi import Path as InPath
from pydantic import Field, StringConstraints

from crossline.basics.texts.problems import nearest, shown
from crossline.basics.times import format_instant
from crossline.serve.http.deps import Dependencies, required
from crossline.serve.http.etags import check_match, check_match_of_new, etag_of
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.problems import ProblemError, not_found
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.alerts import instant
from crossline.serve.http.writes.bodies import Body
from crossline.serve.http.writes.casework import CaseStore, VersionConflictError

TEXT_CHARS = 20_000
ALERTS_MAX = 500
_TODO = "start crossline serve with serve: in the pipeline file, which has a folder for it"

Status = Literal["open", "acknowledged", "escalated", "resolved"]
IfMatch = Annotated[str | None, Header(max_length=1_000, description="ETag of the reviewed version, or `*`.")]
Short = Annotated[str, StringConstraints(max_length=200)]
RecordId = Annotated[str, InPath(max_length=1_000, description="Id of the record.")]
CaseId = Annotated[str, InPath(max_length=200, description="Id of the case.")]


class Label(Body):
    """Whether a record was fraud."""

    is_fraud: bool = Field(description="Whether it was.")
    known_at: str | None = Field(default=None, max_length=40, description="When that was known; else now.")
    reason: str | None = Field(default=None, max_length=TEXT_CHARS, description="How it is known.")


class NewCase(Body):
    """A case that is opened."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=500)] = Field(description="What it is about.")
    key: dict[Short, Short] = Field(default_factory=dict, max_length=8, description="The key that it is about.")
    alert_ids: list[Short] = Field(default_factory=list, max_length=ALERTS_MAX, description="Its alerts.")
    assignee: Short | None = Field(default=None, description="Who works on it.")


class CaseChange(Body):
    """What becomes of a case; what is left out stays."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = Field(default=None)
    status: Status | None = Field(default=None)
    assignee: Short | None = Field(default=None)
    alert_ids: list[Short] | None = Field(default=None, max_length=ALERTS_MAX)


class Note(Body):
    """A note under a case."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=TEXT_CHARS)] = Field(description="Its text.")


def label_routes(deps: Dependencies) -> APIRouter:
    """The routes of labels."""
    routes = APIRouter(tags=["labels"])

    @routes.get("/v1/labels/{stream}/{record_id:path}", openapi_extra=needs("read:records"), summary="A record's label")
    def label(request: Request, stream: str, record_id: RecordId) -> Any:
        """Whether it was fraud, by whom, and since when that is known."""
        only_known(request)
        _check_stream(deps, stream)
        found = _store(deps).label(stream, record_id)
        if found is None:
            raise not_found(f"label of record {shown(record_id)} of {stream}")
        return _tagged(found)

    @routes.put("/v1/labels/{stream}/{record_id:path}", openapi_extra=needs("write:labels"), summary="Label a record")
    def put(
        request: Request, stream: str, record_id: RecordId, wanted: Label, who: Asking, if_match: IfMatch = None
    ) -> Any:
        """A label that is there is changed where ``If-Match`` names it."""
        only_known(request)
        _check_stream(deps, stream)
        known_ms = instant("/known_at", wanted.known_at)
        store, what = _store(deps), f"label of record {shown(record_id)} of {stream}"
        before = store.label(stream, record_id)
        if before is None:
            check_match_of_new(if_match, what)
        else:
            check_match(if_match, etag_of(before), what)
        body = {
            "is_fraud": wanted.is_fraud,
            "known_at": format_instant(deps.now_ms() if known_ms is None else known_ms),
            "reason": wanted.reason,
        }
        version = None if before is None else int(before["version"])
        kept = changed(what, lambda: store.put_label(stream, record_id, body, who.name, version))
        return _tagged(kept, 201 if before is None else 200)

    return routes


def case_routes(deps: Dependencies) -> APIRouter:
    """The routes of cases."""
    routes = APIRouter(tags=["cases"])

    @routes.post("/v1/cases", openapi_extra=needs("write:cases"), summary="Open a case", status_code=201)
    def create(request: Request, wanted: NewCase, who: Asking) -> Any:
        """``Location`` has its address."""
        only_known(request)
        kept = _store(deps).create_case(wanted.model_dump(), who.name)
        return _tagged(kept, 201, {"Location": f"/v1/cases/{kept['case_id']}"})

    @routes.patch("/v1/cases/{case_id}", openapi_extra=needs("write:cases"), summary="Change a case")
    def change(request: Request, case_id: CaseId, wanted: CaseChange, who: Asking, if_match: IfMatch = None) -> Any:
        """Fields that are left out stay; an assignee of ``null`` unassigns it."""
        only_known(request)
        before, what = _case(deps, case_id), f"case {case_id}"
        check_match(if_match, etag_of(before), what)
        given = wanted.model_dump(exclude_unset=True)
        for name in ("title", "status", "alert_ids"):
            if name in given and given[name] is None:
                raise ProblemError(422, "invalid", f"/{name}: found null; expected a value, or no {name} at all")
        if not given:
            return _tagged(before)
        version = int(before["version"])
        return _tagged(changed(what, lambda: _store(deps).change_case(case_id, version, given, who.name)))

    @routes.post(
        "/v1/cases/{case_id}/notes", openapi_extra=needs("write:cases"), summary="Write a note", status_code=201
    )
    def note(request: Request, case_id: CaseId, wanted: Note, who: Asking) -> Any:
        """Notes are only ever added: no ``If-Match`` is asked for."""
        only_known(request)
        _case(deps, case_id)
        return _tagged(_store(deps).note(case_id, wanted.text, who.name), 201)

    return routes


def changed(what: str, change: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What ``change`` gives; ProblemError (412) if another change came first."""
    try:
        return change()
    except VersionConflictError as error:
        raise ProblemError(
            412, "changed", f"{what} was changed at this moment, and is version {error.version}: look at it again"
        ) from None


def _store(deps: Dependencies) -> CaseStore:
    found: CaseStore = required(deps.cases, "store of cases and labels", _TODO)
    return found


def _case(deps: Dependencies, case_id: str) -> Mapping[str, Any]:
    found = _store(deps).case(case_id)
    if found is None:
        raise not_found(f"case {shown(case_id)}", "GET /v1/cases lists those there are")
    return found


def _check_stream(deps: Dependencies, stream: str) -> None:
    if stream not in deps.config.streams:
        raise not_found(f"stream {shown(stream)}", nearest(stream, deps.config.streams))


def _tagged(found: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Any:
    return json_answer(found, status, {"ETag": etag_of(found), **(headers or {})})
