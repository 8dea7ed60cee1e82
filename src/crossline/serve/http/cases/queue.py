"""``GET /v1/cases`` and what is read beside it: a queue, its counts, a case, and cases that are near it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request

from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.queue.views import views
from crossline.serve.http.cases.requests import CaseId, FilterBody, as_problems, case_of, desk_of, filter_of
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import etag_of
from crossline.serve.http.paging import LIMIT_DEFAULT, Cursor, Limit, cursor_of, page, place_of
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.queries import json_answer, only_known

Order = Literal["opened", "newest", "money", "severity"]
_READ = needs("read:alerts")


def queue_routes(deps: Dependencies) -> APIRouter:
    """The routes that read cases."""
    routes = APIRouter(tags=["cases"])

    @routes.get("/v1/cases", openapi_extra=_READ, summary="The queue: cases that meet filters, in an order")
    def cases(
        request: Request,
        who: Asking,
        wanted: Annotated[QueueFilter, Depends(filter_of)],
        sort: Annotated[Order, Query(description="What comes first.")] = "opened",
        limit: Limit = LIMIT_DEFAULT,
        cursor: Cursor = None,
    ) -> Any:
        """Without alerts and notes. Filter by `key.FIELD=VALUE` too. `total` counts all pages."""
        only_known(request, "key.")
        of = f"cases:{etag_of([wanted.to_json(), sort, who.name])}"
        place = place_of(cursor, of, _is_place) if cursor else None
        found = as_problems(lambda: desk_of(deps).page(wanted, who.name, sort, place, limit))
        more = None if found.place is None else cursor_of(found.place, of)
        return json_answer({**page(found.items, more), "total": found.total})

    @routes.get("/v1/cases:counts", openapi_extra=_READ, summary="How many cases each view has")
    def counts(request: Request, who: Asking) -> Any:
        """Exact up to 10,000, beyond that `more` is true. `saved`: of the views that the caller has saved."""
        only_known(request)
        desk = desk_of(deps)
        saved = {each["name"]: FilterBody.model_validate(each["query"]).wanted() for each in views(desk.file, who.name)}
        found = {
            "views": desk.counts(who.name),
            "saved": as_problems(lambda: desk.counts(who.name, saved)) if saved else {},
        }
        return json_answer(found)

    @routes.get("/v1/cases/{case_id}", openapi_extra=_READ, summary="A case, with its alerts, notes and activity")
    def case(request: Request, case_id: CaseId) -> Any:
        """Its ETag is what changes want in ``If-Match``. A merged case names the other case (`merged_into`)."""
        only_known(request)
        found = case_of(deps, case_id)
        return json_answer(found, 200, {"ETag": etag_of(found)})

    @routes.get("/v1/cases/{case_id}/similar", openapi_extra=_READ, summary="Resolved cases that are like it")
    def similar(request: Request, case_id: CaseId) -> Any:
        """Of a same rule, about the same kind of entity, the latest resolved first; at most 20."""
        only_known(request)
        return json_answer(page(as_problems(lambda: desk_of(deps).similar(case_id)), None))

    @routes.get("/v1/cases/{case_id}/linked", openapi_extra=_READ, summary="Cases that share a value with it")
    def linked(request: Request, case_id: CaseId) -> Any:
        """By values that link alerts (`shared`), the latest first; at most 20. Only people merge cases."""
        only_known(request)
        return json_answer(page(as_problems(lambda: desk_of(deps).linked(case_id)), None))

    return routes


def _is_place(place: list[Any]) -> bool:
    if len(place) < 3 or not isinstance(place[0], str) or type(place[1]) is not int:
        return False
    return 0 <= place[1] < 2**62 and len(place) <= 5 and all(isinstance(each, float | int) for each in place[2:])
