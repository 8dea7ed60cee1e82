"""``/v1/holds``: what is held, by alerts and by people; placing a hold, and releasing one."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from crossline.basics.texts.problems import shown
from crossline.basics.times import instant_text
from crossline.io.tokens.lookup import key_as_tokens
from crossline.rule_registry.history import History
from crossline.rule_registry.outcomes.manual_holds import HeldByHand
from crossline.rule_registry.sources.folders import release_in_folder
from crossline.rule_registry.sources.hold_placement import ask_in_folder
from crossline.rule_registry.sources.holds import EndWish, HoldState, HoldWish, new_hold_id
from crossline.rule_registry.sources.releases import release_text
from crossline.rules.holds.manual import KEY_FIELDS_MAX
from crossline.rules.holds.release import release_key
from crossline.serve.http.commands import Commands
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import check_match, etag_of
from crossline.serve.http.paging import page
from crossline.serve.http.principals import Asking, Principal, needs
from crossline.serve.http.problems import ProblemError, invalid, not_found
from crossline.serve.http.queries import json_answer, keys_in, only_known
from crossline.serve.http.reads.alerts import instant
from crossline.serve.http.reads.held_keys import HeldKey, all_held
from crossline.serve.http.reads.rulebook import rulebook
from crossline.serve.http.writes.bodies import Body
from crossline.settings.sources import RulesTopic

REASON_CHARS = 2_000
KEY_DESCRIPTION = "The same again is the same hold."
At = Annotated[str | None, Query(max_length=40, description="As of this instant of event time; else of now.")]


class Release(Body):
    """Why something is held no more."""

    reason: str = Field(max_length=REASON_CHARS, description="Why it is held no more.")


class Hold(Body):
    """What is held, until when, and why."""

    key: dict[str, str | int | bool] = Field(
        min_length=1, max_length=KEY_FIELDS_MAX, description="Fields and their values, such as `{account_id: a1}`."
    )
    action: Literal["review", "step_up", "block"] | None = Field(
        default=None, description="What is decided at least; with `rule_id` it is the rule's, and may be left out."
    )
    until: str = Field(max_length=40, description="Until when, RFC 3339; at most 366 days from now on.")
    reason: str = Field(max_length=REASON_CHARS, description="Why it is held.")
    rule_id: str | None = Field(
        default=None, max_length=64, description="Hold as alerts of this rule do, which has a `hold`."
    )
    stream: str | None = Field(
        default=None, max_length=200, description="Only its records; else those of all streams with the fields."
    )

    def wish(self, who: Principal, idempotency_key: str | None, now_ms: int) -> HoldWish:
        """What is asked for; the same of one key of ``who`` is the same hold. Raises ProblemError if it is wrong."""
        until_ms = instant("/until", self.until)
        if until_ms is None or not self.reason.strip():
            raise invalid("/reason", "no reason", "why the key is held")
        hold_id = new_hold_id()
        if idempotency_key is not None:
            hold_id = hashlib.sha256(f"{who.name}\x1f{idempotency_key}".encode()).hexdigest()[:32]
        streams = () if self.stream is None else (self.stream,)
        given = (until_ms, self.reason.strip(), now_ms, self.action, self.rule_id, streams)
        return HoldWish(hold_id, release_key(self.key), *given)


def hold_routes(deps: Dependencies, commands: Commands) -> APIRouter:
    """The routes of holds."""
    routes = APIRouter(tags=["holds"])

    @routes.get("/v1/holds", openapi_extra=needs("read:alerts"), summary="The keys that are held")
    def holds(request: Request, at: At = None) -> Any:
        """Filter by ``key.FIELD=VALUE``. Of each rule and key the alert that holds it longest."""
        only_known(request, "key.")
        found = holding(deps, at, key_as_tokens(deps.config.streams, keys_in(request), make=False))
        return json_answer(page([_as_json(each) for each in found], None))

    @routes.get("/v1/holds/{hold_id}", openapi_extra=needs("read:alerts"), summary="A key that is held")
    def hold(request: Request, hold_id: str, at: At = None) -> Any:
        """Its ETag is what ``DELETE`` wants in ``If-Match``."""
        only_known(request)
        found = _one(deps, hold_id, at)
        return json_answer(_as_json(found), headers={"ETag": etag_of(found.to_json())})

    @routes.post("/v1/holds", status_code=202, openapi_extra=needs("hold"), summary="Hold a key")
    async def place(
        request: Request,
        wanted: Hold,
        who: Asking,
        idempotency_key: Annotated[str | None, Header(max_length=200, description=KEY_DESCRIPTION)] = None,
    ) -> Any:
        """Records with the key take the action, once a pipeline has loaded it and until ``until``."""
        only_known(request)
        wish = wanted.wish(who, idempotency_key, deps.now_ms())
        key = await run_in_threadpool(partial(key_as_tokens, deps.config.streams, dict(wish.key), make=True))
        wish = replace(wish, key=release_key(key))
        await run_in_threadpool(_check, deps, wish)
        change = await _ask(deps, commands, wish, who)
        body = {**wanted.model_dump(exclude={"stream"}), "hold_id": wish.hold_id, "until": instant_text(wish.until_ms)}
        body |= {"key": dict(wish.key), "stream": wanted.stream, "who": who.name, "change": change}
        return json_answer(body, status=202, headers={"Location": f"/v1/holds/{wish.hold_id}"})

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
        return json_answer(await _release(deps, commands, found, reason, who))

    return routes


async def _release(
    deps: Dependencies, commands: Commands, found: HeldKey | HeldByHand, reason: str, who: Principal
) -> dict[str, Any]:
    """Release it as the command line does; what was released."""
    if isinstance(found, HeldByHand):
        await _ask(deps, commands, EndWish(found.hold_id, reason, deps.now_ms()), who)
        body = {"hold_id": found.hold_id, "rule_id": found.placed.rule_id, "released": dict(found.placed.key)}
        return {**body, "reason": reason, "who": who.name}
    rule_id, key = found.rule.rule_id, found.key
    if isinstance(deps.config.rules, RulesTopic):
        named = [part for name, value in key for part in ("--key", f"{name}={value}")]
        asked = ["rules", "release", rule_id, *named, "--reason", reason, "--as", who.name]
        await commands.run([*asked, "--pipeline", str(deps.pipeline), "--json"], deps.waits.answer_s)
    else:
        # In a folder the file's owner is who released it, which is this process: the reason names the caller.
        figures = Path(deps.config.figures) if deps.config.figures else None
        text = release_text(rule_id, key, f"{reason} (asked for by {who.name})", deps.now_ms())
        await run_in_threadpool(release_in_folder, Path(deps.config.rules.path), figures, rule_id, key, text)
    return {"hold_id": found.hold_id, "rule_id": rule_id, "released": dict(key), "reason": reason, "who": who.name}


async def _ask(deps: Dependencies, commands: Commands, wish: HoldWish | EndWish, who: Principal) -> str:
    """Ask for it as the command line does; ``held``, ``released``, or ``unchanged`` where it was asked for before."""
    if isinstance(deps.config.rules, RulesTopic):
        done = await commands.run(
            [*_arguments(wish), "--as", who.name, "--pipeline", str(deps.pipeline), "--json"],
            deps.waits.answer_s,
        )
        fresh = orjson.loads(done.out).get("change") != "unchanged"
    else:
        # In a folder the file's owner is who asks, which is this process: the reason names the caller.
        asked = replace(wish, reason=f"{wish.reason} (asked for by {who.name})")
        fresh = await run_in_threadpool(ask_in_folder, deps.config, asked, deps.now_ms())
    return ("released" if isinstance(wish, EndWish) else "held") if fresh else "unchanged"


def _arguments(wish: HoldWish | EndWish) -> list[str]:
    if isinstance(wish, EndWish):
        return ["holds", "release", wish.hold_id, "--reason", wish.reason]
    named = [part for name, value in wish.key for part in ("--key", f"{name}={value}")]
    named += [part for name in wish.streams for part in ("--stream", name)]
    named += ["--action", wish.action] if wish.action is not None else []
    named += ["--rule", wish.rule_id] if wish.rule_id is not None else []
    until = instant_text(wish.until_ms)
    return ["holds", "place", "--id", wish.hold_id, *named, "--until", until, "--reason", wish.reason]


def _check(deps: Dependencies, wish: HoldWish) -> None:
    """Raise ProblemError (422) for what a pipeline would refuse, as far as this server knows; 409 without a policy."""
    if deps.config.policy is None:
        raise ProblemError(409, "no-policy", "the pipeline has no policy, so that nothing is decided, and nothing held")
    if wish.until_ms <= deps.now_ms():
        raise invalid("/until", shown(instant_text(wish.until_ms)), "an instant to come")
    events = rulebook(deps.config).events
    problem = HoldState(deps.config.streams, History(events)).problem(wish, deps.now_ms()) if events else None
    if problem is not None:
        raise invalid("", *problem)


def holding(deps: Dependencies, at: str | None, only: dict[str, str] | None = None) -> list[HeldKey | HeldByHand]:
    """What is held, as of an instant or of now: by alerts, and then by people."""
    at_ms = instant("?at", at)
    events = rulebook(deps.config).events
    if not events:
        return []
    with closing(deps.store()) as store:
        return all_held(events, store, deps.now_ms() if at_ms is None else at_ms, only, then=at_ms is not None)


def _one(deps: Dependencies, hold_id: str, at: str | None) -> HeldKey | HeldByHand:
    found = next((each for each in holding(deps, at) if each.hold_id == hold_id), None)
    if found is None:
        raise not_found(
            f"hold {shown(hold_id)}", "GET /v1/holds lists what is held; it may have ended, or been released"
        )
    return found


def _as_json(each: HeldKey | HeldByHand) -> dict[str, Any]:
    body = each.to_json()
    return {**body, "etag": etag_of(body)}
