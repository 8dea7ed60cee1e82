"""``/v1/holds``: what is held, and releasing it. A hold is what alerts of a rule do: nobody places one by hand."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from crossline.core.settings.sources import RulesTopic
from crossline.core.texts.problems import shown
from crossline.rulelog.sources.desks import release_in_folder
from crossline.rulelog.sources.releases import release_text
from crossline.serve.http.commands import Commands
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import check_match, etag_of
from crossline.serve.http.paging import page
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.problems import ProblemError, invalid, not_found
from crossline.serve.http.queries import json_answer, keys_in, only_known
from crossline.serve.http.reads.alerts import instant
from crossline.serve.http.reads.holding import Held, held_now
from crossline.serve.http.reads.rules import log_of
from crossline.serve.http.writes.rules import WAIT_S, Body

REASON_CHARS = 2_000
At = Annotated[str | None, Query(max_length=40, description="As of this instant of event time; else of now.")]


class Release(Body):
    """Why something is held no more."""

    reason: str = Field(max_length=REASON_CHARS, description="Why it is held no more.")


def hold_routes(deps: Dependencies, commands: Commands) -> APIRouter:
    """The routes of holds."""
    routes = APIRouter(tags=["holds"])

    @routes.get("/v1/holds", openapi_extra=needs("read:alerts"), summary="The keys that are held")
    def holds(request: Request, at: At = None) -> Any:
        """Filter by ``key.FIELD=VALUE``. Of each rule and key the alert that holds it longest."""
        only_known(request, "key.")
        found = holding(deps, at, keys_in(request))
        return json_answer(page([_told(each) for each in found], None))

    @routes.get("/v1/holds/{hold_id}", openapi_extra=needs("read:alerts"), summary="A key that is held")
    def hold(request: Request, hold_id: str, at: At = None) -> Any:
        """Its ETag is what ``DELETE`` wants in ``If-Match``."""
        only_known(request)
        found = _one(deps, hold_id, at)
        return json_answer(_told(found), headers={"ETag": etag_of(found.to_json())})

    @routes.post("/v1/holds", include_in_schema=False)
    def place() -> Any:
        raise ProblemError(
            405,
            "method",
            "a hold is placed by an alert of a rule with hold: DURATION, never by hand; to have records of a key "
            "reviewed or blocked, put its value on a list that a rule reads: PUT /v1/lists/{name}/{entry}",
            headers={"Allow": "GET"},
        )

    @routes.delete("/v1/holds/{hold_id}", openapi_extra=needs("hold"), summary="Release a key")
    async def release(
        request: Request,
        hold_id: str,
        wanted: Release,
        who: Asking,
        at: At = None,
        if_match: Annotated[str | None, Header(max_length=1_000, description="ETag of the hold, or `*`.")] = None,
    ) -> Any:
        """Records that come from then on are not held by alerts that came before."""
        only_known(request)
        reason = wanted.reason.strip()
        if not reason:
            raise invalid("/reason", "no reason", "why the key is held no more")
        found = await run_in_threadpool(_one, deps, hold_id, at)
        check_match(if_match, etag_of(found.to_json()), f"hold {hold_id}")
        rule_id, key = found.rule.rule_id, found.key
        if isinstance(deps.config.rules, RulesTopic):
            named = [part for name, value in key for part in ("--key", f"{name}={value}")]
            asked = ["rules", "release", rule_id, *named, "--reason", reason, "--as", who.name]
            await commands.run([*asked, "--pipeline", str(deps.pipeline), "--json"], WAIT_S)
        else:
            # In a folder the file's owner is who released it, which is this process: the reason says who asked.
            figures = Path(deps.config.figures) if deps.config.figures else None
            text = release_text(rule_id, key, f"{reason} (asked for by {who.name})", deps.now_ms())
            await run_in_threadpool(release_in_folder, Path(deps.config.rules.path), figures, rule_id, key, text)
        said = {"hold_id": hold_id, "rule_id": rule_id, "released": dict(key), "reason": reason, "who": who.name}
        return json_answer(said)

    return routes


def holding(deps: Dependencies, at: str | None, only: dict[str, str] | None = None) -> list[Held]:
    """What is held, as of an instant or of now."""
    at_ms = instant("?at", at)
    _, events = log_of(deps.config)
    if not events:
        return []
    with closing(deps.store()) as store:
        return held_now(events, store, deps.now_ms() if at_ms is None else at_ms, only)


def _one(deps: Dependencies, hold_id: str, at: str | None) -> Held:
    found = next((each for each in holding(deps, at) if each.hold_id == hold_id), None)
    if found is None:
        raise not_found(
            f"hold {shown(hold_id)}", "GET /v1/holds lists what is held; it may have ended, or been released"
        )
    return found


def _told(each: Held) -> dict[str, Any]:
    told = each.to_json()
    return {**told, "etag": etag_of(told)}
