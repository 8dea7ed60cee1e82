"""``POST /v1/cases/{case_id}:act`` and ``POST /v1/cases:bulk``: what people do with cases."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from crossline.serve.http.cases.requests import (
    CASES_MAX,
    ActBody,
    CaseId,
    FilterBody,
    Short,
    as_problems,
    case_of,
    desk_of,
)
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import check_match, etag_of
from crossline.serve.http.principals import Asking, Principal, needs
from crossline.serve.http.problems import invalid, refusal
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.writes.bodies import Body
from crossline.serve.http.writes.cases import IfMatch

LABELS = "write:labels"


class BulkBody(Body):
    """One act on many cases: on those that are named, or on all that meet a filter."""

    case_ids: list[Short] | None = Field(default=None, min_length=1, max_length=CASES_MAX, description="The cases.")
    filter: FilterBody | None = Field(default=None, description="Or: all that meet it.")
    act: ActBody = Field(description="What is done with each; a merge makes one case of them, the oldest.")
    expected_count: int | None = Field(
        default=None, ge=0, le=1_000_000, description="How many cases it should be; must be there for more than 100."
    )


def act_routes(deps: Dependencies) -> APIRouter:
    """The routes of acts."""
    routes = APIRouter(tags=["cases"])

    @routes.post("/v1/cases/{case_id}:act", openapi_extra=needs("write:cases"), summary="Do something with a case")
    def act(request: Request, case_id: CaseId, wanted: ActBody, who: Asking, if_match: IfMatch = None) -> Any:
        """The case as it is then. A note needs no ``If-Match``; a label needs the scope ``write:labels`` too.

        `undo` takes back one's own last act on the case, within ten minutes and where nothing has changed since.
        """
        only_known(request)
        check_scope(wanted, who)
        before = case_of(deps, case_id)
        if wanted.act != "note" or if_match is not None:
            check_match(if_match, etag_of(before), f"case {case_id}")
        version = None if wanted.act == "note" else int(before["version"])
        kept = as_problems(lambda: desk_of(deps).act(case_id, wanted.wanted(), who.name, version))
        return json_answer(kept, 200, {"ETag": etag_of(kept)})

    @routes.post("/v1/cases:bulk", openapi_extra=needs("write:cases"), summary="Do something with many cases")
    def bulk(request: Request, wanted: BulkBody, who: Asking) -> Any:
        """In one transaction. Cases on which it does not fit are left as they are, and `refused` has the reasons."""
        only_known(request)
        check_scope(wanted.act, who)
        if (wanted.case_ids is None) == (wanted.filter is None):
            raise invalid("/case_ids", "both or neither of case_ids and filter", "one of them")
        cases = wanted.filter.wanted() if wanted.filter is not None else wanted.case_ids or []
        desk = desk_of(deps)
        return json_answer(as_problems(lambda: desk.bulk(cases, wanted.act.wanted(), who.name, wanted.expected_count)))

    return routes


def check_scope(wanted: ActBody, who: Principal) -> None:
    """Raise ProblemError (403) for a label by who may give none."""
    if wanted.label is not None and LABELS not in who.scopes:
        raise refusal(403, f"found a label, and a credential without the scope {LABELS}; expected both, or no label")
