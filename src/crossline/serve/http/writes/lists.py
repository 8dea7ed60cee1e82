"""``/v1/lists``: entries of named lists, with an end where they have one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Request
from fastapi import Path as InPath
from pydantic import Field

from crossline.basics.conditions.tree import Literal, literal
from crossline.basics.texts.problems import shown
from crossline.basics.times import FOREVER_MS
from crossline.io.tokens.lookup import list_tokens
from crossline.rule_registry.list_file import list_name
from crossline.rule_registry.sources.list_edit import ListEntry, ListFolder, entry_text, named, no_list
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import check_match, check_match_of_new, etag_of
from crossline.serve.http.principals import needs
from crossline.serve.http.problems import ProblemError, conflict, invalid, not_found
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.alerts import instant
from crossline.serve.http.reads.lists import entries_of
from crossline.serve.http.writes.bodies import Body
from crossline.settings.sources import ControlTopic

ENTRY_CHARS = 1_000
IfMatch = Annotated[str | None, Header(max_length=1_000, description="ETag of the entry that is there, or `*`.")]
Entry = Annotated[str, InPath(max_length=ENTRY_CHARS, description="The value, as text.")]


class Put(Body):
    """How an entry stands in its list."""

    until: str | None = Field(default=None, max_length=40, description="Instant at which the entry ends.")
    value: str | int | float | bool | None = Field(
        default=None, description="The value, where it is no text: a number, true or false, written as in the address."
    )


def list_routes(deps: Dependencies) -> APIRouter:
    """The routes of lists."""
    routes = APIRouter(tags=["lists"])

    @routes.get("/v1/lists", openapi_extra=needs("read:alerts"), summary="The named lists, and how long they are")
    def lists(request: Request) -> Any:
        """By name."""
        only_known(request)
        found = entries_of(deps.config)
        rows = [{"list": name, "entries": len(found[name])} for name in sorted(found)]
        return json_answer({"items": rows, "next_cursor": None})

    @routes.get("/v1/lists/{name}/{entry:path}", openapi_extra=needs("read:alerts"), summary="An entry of a list")
    def entry(request: Request, name: str, entry: Entry) -> Any:
        """Its ETag is what ``PUT`` and ``DELETE`` want in ``If-Match``."""
        only_known(request)
        found, entry = entries_of(deps.config), _as_token(deps, name, entry)
        if name not in found:
            raise not_found(f"list {shown(name)}")
        there = named(name, found[name], entry)
        if there is None:
            raise not_found(f"entry {shown(entry)} in list {name}")
        return _answer(there)

    @routes.put("/v1/lists/{name}/{entry:path}", openapi_extra=needs("write:lists"), summary="Put an entry into a list")
    def put(request: Request, name: str, entry: Entry, wanted: Put, if_match: IfMatch = None) -> Any:
        """What is there already is changed where ``If-Match`` names it."""
        only_known(request)
        value, until_ms = _value(entry, wanted), instant("/until", wanted.until)
        token = _as_token(deps, name, entry)
        value, entry = (value, entry) if token == entry else (token, token)
        if until_ms is not None and until_ms <= deps.now_ms():
            raise invalid("/until", shown(wanted.until), "an instant to come; DELETE takes an entry out")

        def check(known: ListEntry | None) -> None:
            if known is None:
                check_match_of_new(if_match, f"entry {shown(entry)} in list {name}")
            else:
                check_match(if_match, etag_of(known.to_json()), f"entry {shown(entry)} of list {name}")

        made, before = _folder(deps, name).put(name, value, FOREVER_MS if until_ms is None else until_ms, check)
        return _answer(made, 200 if before else 201)

    @routes.delete(
        "/v1/lists/{name}/{entry:path}", openapi_extra=needs("write:lists"), summary="Take an entry out of a list"
    )
    def remove(request: Request, name: str, entry: Entry, if_match: IfMatch = None) -> Any:
        """It is held against records until a pipeline loads that it is gone."""
        only_known(request)
        entry = _as_token(deps, name, entry)

        def check(known: ListEntry | None) -> None:
            if known is None:
                raise not_found(f"entry {shown(entry)} in list {name}")
            check_match(if_match, etag_of(known.to_json()), f"entry {shown(entry)} of list {name}")

        gone = _folder(deps, name).remove(name, entry, check)
        return json_answer({} if gone is None else {**gone.to_json(), "removed": True})

    return routes


def _as_token(deps: Dependencies, name: str, entry: str) -> str:
    """The entry's token, in a list of sensitive values."""
    make = list_tokens(deps.config.streams).get(name)
    return entry if make is None else make([entry])[0]


def _value(text: str, wanted: Put) -> Literal:
    """The value that the address and the body name. Raises ProblemError if they name two."""
    if not text or "\0" in text or not text.isprintable():
        raise invalid("entry", shown(text), "a value of printable characters")
    if wanted.value is None:
        return text
    value = literal(wanted.value)
    if value is None or entry_text(value) != text:
        raise invalid(
            "/value", orjson.dumps(wanted.value, default=str).decode(), f"{shown(text)}, as the address has it"
        )
    return value


def _folder(deps: Dependencies, name: str) -> ListFolder:
    """The folder that has the list. Raises ProblemError if there is none, or lists come from a topic."""
    settings = deps.config.lists
    if settings is None:
        raise not_found(f"list {shown(name)}", f"pipeline {deps.config.name} has no lists: name their folder")
    if isinstance(settings, ControlTopic):
        raise conflict(
            f"the lists come from topic {settings.topic}, where each is one message: send it whole with crossline "
            "rules publish-list"
        )
    folder = ListFolder(Path(settings.path))
    known = [list_name(source) for source in folder.files()]
    if name not in known:
        raise ProblemError(404, "not-found", str(no_list(name, known)))
    return folder


def _answer(entry: ListEntry, status: int = 200) -> Any:
    body = entry.to_json()
    return json_answer(body, status, {"ETag": etag_of(body)})
