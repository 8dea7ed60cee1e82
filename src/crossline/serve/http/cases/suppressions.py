"""``/v1/suppressions``: alerts that open no case, until an end, and the fraud that this hid."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from pydantic import Field, StringConstraints

from crossline.serve.cases.suppressions import store as kept
from crossline.serve.cases.suppressions.conditions import SuppressionCondition
from crossline.serve.http.cases.requests import Short, Value, as_problems, desk_of
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import check_match, etag_of
from crossline.serve.http.paging import LIMIT_DEFAULT, Cursor, Limit, cursor_of, page, place_of
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.alerts import instant
from crossline.serve.http.writes.bodies import Body
from crossline.serve.http.writes.cases import IfMatch

Number = Annotated[int, InPath(ge=1, le=2**62, description="Number of the suppression.")]
_OF = "suppressions"


class ConditionBody(Body):
    """A condition on a field of the alert. One whose field is missing does not hold."""

    field: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="The field, such as `value`, `key.account_id` or `record.merchant_id`."
    )
    operator: str = Field(max_length=10, description="`==`, `!=`, `<`, `<=`, `>`, `>=` or `in`.")
    value: str | int | float | bool | list[str | int | float | bool] = Field(description="What it is held against.")


class SuppressionBody(Body):
    """Alerts that are to open no case: those that meet all that is given."""

    rules: list[Short] = Field(
        default_factory=list, max_length=kept.RULES_MAX, description="Of these rules; none: all."
    )
    key: dict[Short, Value] = Field(default_factory=dict, max_length=8, description="With this key.")
    conditions: list[ConditionBody] = Field(
        default_factory=list, max_length=kept.CONDITIONS_MAX, description="That meet all of these."
    )
    until: str = Field(max_length=40, description="When it ends by itself; within a year.")
    reason: Annotated[str, StringConstraints(min_length=1, max_length=4_000)] = Field(description="Why, for people.")

    def wanted(self) -> kept.NewSuppression:
        """As the store takes it."""
        until_ms = instant("/until", self.until) or 0
        conditions = [SuppressionCondition(each.field, each.operator, each.value) for each in self.conditions]
        return kept.NewSuppression(until_ms, self.reason, self.rules, self.key, conditions)


def suppression_routes(deps: Dependencies) -> APIRouter:
    """The routes of suppressions."""
    routes = APIRouter(tags=["suppressions"])

    @routes.get("/v1/suppressions", openapi_extra=needs("read:alerts"), summary="Suppressions, the latest first")
    def listed(request: Request, limit: Limit = LIMIT_DEFAULT, cursor: Cursor = None) -> Any:
        """How many alerts each hid, and how many of these were on records that are labelled as fraud."""
        only_known(request)
        before = place_of(cursor, _OF, _is_place)[0] if cursor else None
        found = kept.listed(desk_of(deps).file, deps.now_ms(), before, limit + 1)
        more = cursor_of([found[limit - 1]["suppression_id"]], _OF) if len(found) > limit else None
        return json_answer(page(found[:limit], more))

    @routes.post(
        "/v1/suppressions",
        openapi_extra=needs("write:cases"),
        summary="Suppress alerts for a time",
        status_code=201,
    )
    def make(request: Request, wanted: SuppressionBody, who: Asking) -> Any:
        """Of alerts that come from now on; cases that are there stay as they are."""
        only_known(request)
        made = as_problems(lambda: kept.make(desk_of(deps).file, wanted.wanted(), who.name, deps.now_ms()))
        at = f"/v1/suppressions/{made['suppression_id']}"
        return json_answer(made, 201, {"ETag": _etag(made), "Location": at})

    @routes.get(
        "/v1/suppressions/{suppression_id}",
        openapi_extra=needs("read:alerts"),
        summary="A suppression, and what it hid",
    )
    def one(request: Request, suppression_id: Number) -> Any:
        """`frauds`: of the alerts that it hid, those on records that are labelled as fraud; the last 100."""
        only_known(request)
        found = as_problems(lambda: kept.one(desk_of(deps).file, suppression_id, deps.now_ms()), "suppression")
        return json_answer(found, 200, {"ETag": _etag(found)})

    @routes.delete(
        "/v1/suppressions/{suppression_id}", openapi_extra=needs("write:cases"), summary="End a suppression now"
    )
    def end(request: Request, suppression_id: Number, who: Asking, if_match: IfMatch = None) -> Any:
        """It stays in the list, with who ended it."""
        only_known(request)
        file, now_ms = desk_of(deps).file, deps.now_ms()
        before = as_problems(lambda: kept.one(file, suppression_id, now_ms), "suppression")
        check_match(if_match, _etag(before), f"suppression {suppression_id}")
        ended = as_problems(lambda: kept.end(file, suppression_id, before["version"], who.name, now_ms), "suppression")
        return json_answer(ended, 200, {"ETag": _etag(ended)})

    return routes


def _etag(found: dict[str, Any]) -> str:
    """Of what people say of it: what it hides meanwhile changes nothing of that."""
    return etag_of([found["suppression_id"], found["version"]])


def _is_place(place: list[Any]) -> bool:
    return len(place) == 1 and type(place[0]) is int and 0 < place[0] < 2**62
