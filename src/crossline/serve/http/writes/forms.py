"""``/v1/rules:form``: a rule's text as fields that a person sets, and changes of these written into the text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from crossline.analysis.forms.form_reader import form_of
from crossline.analysis.forms.form_writer import with_form
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.principals import needs
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.writes.bodies import RuleFile

CHANGES_MAX = 1_000


class FormAsked(RuleFile):
    """A text with one rule, and what is to be changed in it."""

    changes: dict[str, str] = Field(
        default={},
        max_length=CHANGES_MAX,
        description="Values by the names of fields; an empty one takes the field away.",
    )


def form_routes(deps: Dependencies) -> APIRouter:
    """The route of the form."""
    routes = APIRouter(tags=["rules"])

    @routes.post("/v1/rules:form", openapi_extra=needs("rules:draft"), summary="A rule's text as fields, and back")
    def form(request: Request, asked: FormAsked) -> Any:
        """The text with the changes, in which all else is as it was, and its fields. Nothing is kept."""
        only_known(request)
        asked.checked()
        text = with_form(asked.text, asked.changes, deps.config.streams) if asked.changes else asked.text
        return json_answer({"text": text, **asdict(form_of(text, deps.config.streams))})

    return routes
