"""``/v1/drafts``, ``/v1/approvals``: a text is worked on, proven, asked for, and signed by a second person."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from crossline.basics.errors import PermanentError
from crossline.basics.texts.problems import shown
from crossline.basics.texts.yamltext import SIZE_MAX
from crossline.serve.approvals import values
from crossline.serve.approvals.file import ApprovalFile
from crossline.serve.approvals.submission import ask_for
from crossline.serve.http.commands import Commands
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import etag_of
from crossline.serve.http.paging import page
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.problems import conflict, invalid, not_found
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.rules import RuleName
from crossline.serve.http.writes.bodies import Body
from crossline.serve.http.writes.changes import check_one_user
from crossline.serve.http.writes.publishing import publish_approved

DECIDED_MAX = 50
Number = Annotated[int, InPath(ge=1, lt=2**31, description="Number of the request.")]


class DraftText(Body):
    """A draft that a user works on."""

    text: str = Field(max_length=SIZE_MAX, description="The text so far; it may be invalid.")


class ApprovalRequest(Body):
    """Of which text approval is asked for."""

    text: str = Field(
        max_length=SIZE_MAX, description="A file with one rule, for which a proof was run (`/v1/rules:prove`)."
    )


class Signed(Body):
    """That a request is approved of."""

    proof_id: str = Field(max_length=100, description="Digest of the reviewed proof.")
    reason: str = Field(default="", max_length=2_000, description="For who reads it later.")


class Rejected(Body):
    """That it is not."""

    reason: str = Field(max_length=2_000, description="Why: who wrote it will read it.")


def draft_routes(deps: Dependencies, kept: ApprovalFile) -> APIRouter:
    """The routes of drafts: each is of its author."""
    routes = APIRouter(tags=["rules"])

    @routes.get("/v1/drafts/{rule_id}", openapi_extra=needs("rules:draft"), summary="A draft of the caller")
    def draft(request: Request, rule_id: RuleName, who: Asking) -> Any:
        """The last text that was kept; of a new rule `rule_id` is `new`, or what it is to be called."""
        only_known(request)
        return _draft(kept, rule_id, who.name)

    @routes.put("/v1/drafts/{rule_id}", openapi_extra=needs("rules:draft"), summary="Keep a draft")
    def keep(request: Request, rule_id: RuleName, given: DraftText, who: Asking) -> Any:
        """In the place of the one before."""
        only_known(request)
        kept.keep_draft(values.RuleDraft(rule_id, who.name, given.text, deps.now_ms()))
        return _draft(kept, rule_id, who.name)

    @routes.delete("/v1/drafts/{rule_id}", openapi_extra=needs("rules:draft"), summary="Drop a draft")
    def drop(request: Request, rule_id: RuleName, who: Asking) -> Any:
        """The draft's earlier texts."""
        only_known(request)
        found = _draft(kept, rule_id, who.name)
        kept.drop_draft(rule_id, who.name)
        return found

    return routes


def approval_routes(deps: Dependencies, commands: Commands, kept: ApprovalFile) -> APIRouter:
    """The routes by which approval is asked for, given and refused."""
    routes = APIRouter(tags=["rules"])

    @routes.get("/v1/approvals", openapi_extra=needs("read:alerts"), summary="List requests for approval")
    def listed(
        request: Request,
        state: Annotated[Literal["waiting", "decided"], Query(description="Which; the last 50 decided.")] = "waiting",
    ) -> Any:
        """Those that wait, the first first; those decided, the last first."""
        only_known(request, "state")
        found = kept.waiting() if state == "waiting" else kept.decided(DECIDED_MAX)
        return json_answer(page([each.to_json() for each in found], None))

    @routes.post(
        "/v1/approvals", openapi_extra=needs("rules:draft"), summary="Ask for approval of a text", status_code=201
    )
    async def ask(request: Request, wanted: ApprovalRequest, who: Asking) -> Any:
        """There has to be a proof of exactly this text; another principal decides."""
        only_known(request)
        check_one_user(deps.config)
        made = await run_in_threadpool(ask_for, deps.config, kept, wanted.text, who.name, deps.now_ms())
        return json_answer(made.to_json(), 201, {"Location": f"/v1/approvals/{made.number}"})

    @routes.get("/v1/approvals/{number}", openapi_extra=needs("read:alerts"), summary="A request, with its text")
    def one(request: Request, number: Number) -> Any:
        """`proof_id` is what `:approve` asks for."""
        only_known(request)
        found = _request(kept, number).to_json()
        return json_answer(found, headers={"ETag": etag_of(found)})

    @routes.get("/v1/approvals/{number}/proof", openapi_extra=needs("read:alerts"), summary="The proof of a request")
    def proof(request: Request, number: Number) -> Any:
        """As `crossline verify` runs it again."""
        only_known(request)
        return json_answer(dict(proof_of(kept, _request(kept, number)).content))

    _add_decisions(routes, deps, commands, kept)
    return routes


def _add_decisions(routes: APIRouter, deps: Dependencies, commands: Commands, kept: ApprovalFile) -> None:
    @routes.post("/v1/approvals/{number}:approve", openapi_extra=needs("rules:approve"), summary="Approve, and publish")
    async def approve(request: Request, number: Number, given: Signed, who: Asking) -> Any:
        """In the name of who asked; who approves is another principal, and stands beside it in the rule log.

        Asked again by who approved, it is published again: the server may have ended before that was done.
        """
        only_known(request)
        check_one_user(deps.config)
        found = await run_in_threadpool(_request, kept, number)
        if given.proof_id != found.proof_id:
            raise invalid("/proof_id", "another proof than that of the request", "that which was looked at")
        again = found.state == "published" and found.decided_by == who.name
        if not again:
            found = await _decided(kept, number, who.name, given.reason, deps.now_ms(), approved=True)
        proof = (await run_in_threadpool(proof_of, kept, found)).content
        try:
            rules = await publish_approved(deps, commands, found, who.name, proof)
        except BaseException:
            if not again:
                await run_in_threadpool(kept.reopen, number)
            raise
        found = await run_in_threadpool(kept.note_done, number, deps.now_ms())
        return json_answer({**found.to_json(), "rules": rules})

    @routes.post("/v1/approvals/{number}:reject", openapi_extra=needs("rules:approve"), summary="Reject a request")
    async def reject(request: Request, number: Number, given: Rejected, who: Asking) -> Any:
        """With a reason."""
        only_known(request)
        if not given.reason.strip():
            raise invalid("/reason", "nothing", "why it is rejected: who wrote it will read it")
        found = await _decided(kept, number, who.name, given.reason, deps.now_ms(), approved=False)
        return json_answer(found.to_json())


def proof_of(kept: ApprovalFile, request: values.Request) -> values.KeptProof:
    """The proof of a request. Raises ProblemError (404) if it is gone."""
    found = kept.proof(request.proof_id)
    if found is None:
        raise not_found(f"proof {request.proof_id}")
    return found


async def _decided(
    kept: ApprovalFile, number: int, who: str, reason: str, now_ms: int, *, approved: bool
) -> values.Request:
    try:
        return await run_in_threadpool(kept.decide, number, who, reason.strip(), now_ms, approved=approved)
    except PermanentError as error:
        raise conflict(str(error)) from None


def _request(kept: ApprovalFile, number: int) -> values.Request:
    found = kept.request(number)
    if found is None:
        raise not_found(f"request {number}")
    return found


def _draft(kept: ApprovalFile, rule_id: str, who: str) -> Any:
    found = kept.draft(rule_id, who)
    if found is None:
        raise not_found(f"draft of {who} for {shown(rule_id)}")
    body = found.to_json()
    return json_answer(body, headers={"ETag": etag_of(body)})
