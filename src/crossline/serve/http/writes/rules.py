"""``/v1/rules:…``: rules are checked, tried, published, approved of, by the functions of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.concurrency import run_in_threadpool

from crossline.basics.texts.problems import shown
from crossline.rule_registry.file_check import judge_files
from crossline.rule_registry.history import History
from crossline.rule_registry.outcomes.warnings import warnings_of
from crossline.rule_registry.sources.folders import folder_with_logs, known_of
from crossline.serve.approvals.file import ApprovalFile
from crossline.serve.http.commands import Commands
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import check_match
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.problems import not_found, pointer_of
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.rules import RuleName, tags_of_version
from crossline.serve.http.writes import changes
from crossline.serve.http.writes.bodies import Approval, NewShare, NewStatus, PublishedFile, RuleFile
from crossline.serve.http.writes.pending_approval import WAITS, check_rule, pending_answer

IfMatch = Annotated[str | None, Header(max_length=1_000, description="ETag of the reviewed version, or `*`.")]


def rule_writes(deps: Dependencies, commands: Commands, kept: ApprovalFile) -> APIRouter:
    """The routes that check and change rules."""
    routes = APIRouter(tags=["rules"])

    @routes.post("/v1/rules:check", openapi_extra=needs("rules:draft"), summary="Check a file of rules")
    def check(request: Request, file: RuleFile) -> Any:
        """Everything that is wrong with it; ``200`` in any case."""
        only_known(request)
        return json_answer(checked(deps, file))

    @routes.post(
        "/v1/rules:publish", openapi_extra=needs("rules:draft"), summary="Publish a file of rules", responses=WAITS
    )
    async def publish(request: Request, file: PublishedFile, who: Asking) -> Any:
        """It is put into the folder, or sent to the topic, if it is right and may follow what is live."""
        only_known(request)
        body = await changes.put(deps, commands, who.name, file)
        return await run_in_threadpool(pending_answer, deps.config, body, body["items"], file.checked())

    @routes.post("/v1/rules:approve", openapi_extra=needs("rules:approve"), summary="Approve of a version")
    async def approve(request: Request, wanted: Approval, who: Asking, if_match: IfMatch = None) -> Any:
        """A version that another user published; where a review is required, it is effective from then on."""
        only_known(request)
        of = (wanted.rule_id, wanted.version)
        await run_in_threadpool(_check_version, deps, *of, if_match)
        proof = None if wanted.proof_id is None else await run_in_threadpool(_proof, kept, wanted.proof_id)
        looked_at = partial(check_rule, deps.config, if_match)
        return json_answer(await changes.approve(deps, commands, who.name, of, proof, looked_at))

    @routes.post(
        "/v1/rules/{rule_id}:set-status",
        openapi_extra=needs("rules:approve"),
        summary="Set the status of a version",
        responses=WAITS,
    )
    async def set_status(
        request: Request, rule_id: RuleName, wanted: NewStatus, who: Asking, if_match: IfMatch = None
    ) -> Any:
        """If the move is legal; comments and layout of its file stay."""
        only_known(request)
        await run_in_threadpool(_check_version, deps, rule_id, wanted.version, if_match)
        done = await changes.set_status(deps, commands, who.name, rule_id, wanted)
        return await run_in_threadpool(pending_answer, deps.config, done, [done])

    @routes.post(
        "/v1/rules/{rule_id}:set-share",
        openapi_extra=needs("rules:approve"),
        summary="Set the share of keys",
        responses=WAITS,
    )
    async def set_share(
        request: Request, rule_id: RuleName, wanted: NewShare, who: Asking, if_match: IfMatch = None
    ) -> Any:
        """For which an active version decides: a share that grows keeps its keys; `0%` leaves all to the one before."""
        only_known(request)
        await run_in_threadpool(_check_version, deps, rule_id, wanted.version, if_match)
        done = await changes.set_share(deps, commands, who.name, rule_id, wanted)
        return await run_in_threadpool(pending_answer, deps.config, done, [done])

    return routes


def checked(deps: Dependencies, file: RuleFile) -> Mapping[str, Any]:
    """What is wrong with a file, as ``crossline rules check --json`` prints it, with pointers into it."""
    content = file.checked()
    known = known_of(deps.config)
    folder = folder_with_logs(Path(deps.config.rules.path), known)
    for history in folder.histories:
        known = known.with_heads(history.heads)
    accepted, refused = judge_files({file.name: content}, History(), known)
    problems = [problem for error in refused.values() for problem in error.problems]
    warnings = [each for item in accepted for each in warnings_of(item)]
    return {
        "ok": not problems and bool(accepted),
        "rules": [{"rule_id": each.rule.rule_id, "version": each.rule.version} for each in accepted],
        "problems": [_problem(each) for each in problems],
        "warnings": [_problem(each) for each in warnings],
    }


def _check_version(deps: Dependencies, rule_id: str, version: int | None, if_match: str | None) -> None:
    """Raise ProblemError unless the version was looked at as it is."""
    number, (tag, *more) = tags_of_version(deps.config, rule_id, version)
    check_match(if_match, tag, f"version {number} of {rule_id}", more)


def _proof(kept: ApprovalFile, proof_id: str) -> Mapping[str, Any]:
    found = kept.proof(proof_id)
    if found is None:
        raise not_found(f"proof {shown(proof_id)}")
    return found.content


def _problem(each: Any) -> dict[str, Any]:
    place = {"line": each.line, "path": each.path, "snippet": each.snippet}
    body = {"found": each.found, "expected": each.expected, "hint": each.hint}
    return {"pointer": pointer_of(each.path), **body, **place}
