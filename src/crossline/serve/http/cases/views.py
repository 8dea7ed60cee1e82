"""``/v1/views``: filters that a person has saved."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi import Path as InPath
from pydantic import Field

from crossline.basics.texts.problems import shown
from crossline.serve.cases.queue import views as kept
from crossline.serve.http.cases.requests import FilterBody, as_problems, desk_of
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import check_match, check_match_of_new, etag_of
from crossline.serve.http.paging import page
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.problems import not_found
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.writes.bodies import Body
from crossline.serve.http.writes.cases import IfMatch

Name = Annotated[str, InPath(min_length=1, max_length=kept.NAME_MAX, description="Name of the view.")]


class View(Body):
    """A view that is saved."""

    query: FilterBody = Field(description="The filters.")
    default: bool = Field(default=False, description="Whether it is what the person sees first.")


def view_routes(deps: Dependencies) -> APIRouter:
    """The routes of saved views; each person has his own."""
    routes = APIRouter(tags=["cases"])

    @routes.get("/v1/views", openapi_extra=needs("read:alerts"), summary="One's own saved views")
    def views(request: Request, who: Asking) -> Any:
        """By name; at most one is the `default`. Each has its ETag."""
        only_known(request)
        found = kept.views(desk_of(deps).file, who.name)
        return json_answer(page([{**each, "etag": etag_of(each)} for each in found], None))

    @routes.put("/v1/views/{name}", openapi_extra=needs("write:cases"), summary="Save a view")
    def put(request: Request, name: Name, wanted: View, who: Asking, if_match: IfMatch = None) -> Any:
        """One that is there is changed where ``If-Match`` names it."""
        only_known(request)
        file = desk_of(deps).file
        before = next((each for each in kept.views(file, who.name) if each["name"] == name), None)
        if before is None:
            check_match_of_new(if_match, f"view {shown(name)}")
        else:
            check_match(if_match, etag_of(before), f"view {shown(name)}")
        wanted.query.wanted()
        query = wanted.query.model_dump(by_alias=True, exclude_defaults=True)
        made = as_problems(lambda: kept.put(file, who.name, name, query, default=wanted.default))
        return json_answer(made, 201 if before is None else 200, {"ETag": etag_of(made)})

    @routes.delete("/v1/views/{name}", openapi_extra=needs("write:cases"), summary="Forget a view", status_code=204)
    def remove(request: Request, name: Name, who: Asking, if_match: IfMatch = None) -> Response:
        """One's own."""
        only_known(request)
        file = desk_of(deps).file
        before = next((each for each in kept.views(file, who.name) if each["name"] == name), None)
        if before is None:
            raise not_found(f"view {shown(name)}")
        check_match(if_match, etag_of(before), f"view {shown(name)}")
        as_problems(lambda: kept.remove(file, who.name, name), f"view {shown(name)}")
        return Response(status_code=204)

    return routes
