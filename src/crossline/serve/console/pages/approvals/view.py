"""``/approvals``, ``/approvals/{number}``: approve or reject, by a second person, what is proven."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from starlette.responses import Response

from crossline.basics.errors import PermanentError
from crossline.basics.share import keys_of
from crossline.rules.base import Rule
from crossline.serve.approvals.file import check_may_decide
from crossline.serve.approvals.texts import diff, differing, english, text_of, the_rule
from crossline.serve.approvals.values import KeptProof, Request
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.flash import saying
from crossline.serve.console.layout.shell import Crumb
from crossline.serve.console.pages.approvals.context import ApprovalPage, ApprovalsPage, RequestRow
from crossline.serve.console.pages.approvals.versions import approve_version, waiting_events, waiting_versions
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.pages.rules.editor import number_of
from crossline.serve.console.pages.rules.trials import figures_of, prediction_text, proof_rows
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.problems import ProblemError, not_found
from crossline.serve.http.reads.rules import current_of, versions_of
from crossline.serve.http.writes.approvals import proof_of
from crossline.serve.http.writes.changes import check_one_user

SCOPE = "rules:approve"
ROUTE = "/v1/approvals/{number}"


def view(asked: PageRequest) -> ApprovalsPage:
    """What waits."""
    kept = asked.parts.approvals
    return ApprovalsPage(
        shell=asked.shell("Approvals"),
        waiting=tuple(_row(asked, each) for each in kept.waiting()),
        versions=waiting_versions(asked),
        decided=tuple(_row(asked, each) for each in kept.decided()),
    )


def waits(asked: PageRequest) -> int:
    """How many wait."""
    return len(asked.parts.approvals.waiting()) + len(waiting_events(asked))


def one(asked: PageRequest) -> ApprovalPage:
    """One, with its proof."""
    return _page(asked, _request(asked), asked.query.get("act", ""))


def proof(asked: PageRequest) -> Response:
    """The proof, for ``crossline verify``."""
    kept = _proof(asked, _request(asked))
    headers = {"Content-Disposition": 'attachment; filename="proof.json"'}
    return Response(orjson.dumps(dict(kept.content), option=orjson.OPT_INDENT_2), 200, headers, "application/json")


async def approve(asked: PageRequest) -> Any:
    """Publish it, in the name of who asked; approve of it, in that of who does."""
    request = await asyncio.to_thread(_request, asked)
    signed = {"proof_id": asked.form.get("proof_id", ""), "reason": asked.form.get("reason", "")}
    try:
        await called(asked, "POST", f"{ROUTE}:approve", {"number": str(request.number)}, signed)
    except ProblemError as error:
        return await _refused(asked, await asyncio.to_thread(_request, asked), "approve", error)
    text = f"Version {request.version} of {request.rule_id} is published; a pipeline loads it with its next batch."
    return saying(moved(f"/rules/{segment(request.rule_id)}"), asked, text)


async def reject(asked: PageRequest) -> Any:
    """Reject it with a reason."""
    request = await asyncio.to_thread(_request, asked)
    body = {"reason": asked.form.get("reason", "")}
    try:
        await called(asked, "POST", f"{ROUTE}:reject", {"number": str(request.number)}, body)
    except ProblemError as error:
        return await _refused(asked, await asyncio.to_thread(_request, asked), "reject", error)
    return saying(moved("/approvals"), asked, f"Version {request.version} of {request.rule_id} is rejected.")


async def _refused(asked: PageRequest, request: Request, act: str, error: ProblemError) -> Shown:
    if error.status not in {400, 409, 422}:
        raise error
    detail = str(error.to_json()["detail"])
    return Shown(await asyncio.to_thread(_page, asked, request, act, detail), error.status)


def _request(asked: PageRequest) -> Request:
    number = number_of(asked.path["number"])
    found = asked.parts.approvals.request(number)
    if found is None:
        raise not_found(f"request {number}")
    return found


def _proof(asked: PageRequest, request: Request) -> KeptProof:
    return proof_of(asked.parts.approvals, request)


def _row(asked: PageRequest, each: Request) -> RequestRow:
    kept = asked.parts.approvals.proof(each.proof_id)
    return RequestRow(
        number=each.number,
        address=f"/approvals/{each.number}",
        rule_id=each.rule_id,
        version=each.version,
        who=each.who,
        asked=asked.times.moment(each.asked_ms),
        state=each.state,
        decided=None if each.decided_ms is None else asked.times.moment(each.decided_ms),
        decided_by=each.decided_by or "",
        reason=each.reason,
        predicted="" if kept is None else prediction_text(kept.content),
    )


def _page(asked: PageRequest, request: Request, act: str, wrong: str = "") -> ApprovalPage:
    config, kept = asked.parts.deps.config, _proof(asked, request)
    body = kept.content
    live, before = _live(asked, request)
    lines = diff(before, request.text) if before else ()
    rule = the_rule(config, request.text)
    proven_against = body["against"]["version"]
    why_not = _why_not(asked, request)
    now = f"version {live}" if live else "no version"
    then = f"version {proven_against}" if proven_against else "no version"
    return ApprovalPage(
        shell=asked.shell(
            f"Approval {request.number}",
            (Crumb("Approvals", "/approvals"), Crumb(f"{request.rule_id}, version {request.version}")),
        ),
        row=_row(asked, request),
        caption="" if rule is None else english(config, rule),
        text=tuple(request.text.splitlines()),
        diff=lines,
        differs=differing(lines),
        against=live,
        figures=tuple(figures_of(body, asked.parts.settings.cases.money)),
        appear=body["against"]["appear"],
        disappear=body["against"]["disappear"],
        both=body["against"]["both"],
        proof=proof_rows(body),
        ran_by=kept.who,
        ran_at=asked.times.moment(kept.at_ms),
        changed=f"Since the proof was run the live version changed: it was {then}, and is {now}."
        if live != (proven_against or 0) and request.state == "waiting"
        else "",
        consequence=_consequence(request, rule, live, body),
        act=act if act in {"approve", "reject"} and not why_not else "",
        proof_id=request.proof_id,
        why_not=why_not,
        wrong=wrong,
    )


def _live(asked: PageRequest, request: Request) -> tuple[int, str]:
    """The version in force and its text; 0: there is none."""
    config = asked.parts.deps.config
    try:
        row = current_of(versions_of(config, request.rule_id))
    except ProblemError:
        return 0, ""
    return int(row["version"]), text_of(config, row)[0]


def _consequence(request: Request, rule: Rule | None, live: int, body: Any) -> str:
    """What approving does."""
    status = rule.status if rule else ""
    what = f"Version {request.version} replaces version {live}" if live else f"Version {request.version} is published"
    how = (
        " as a shadow, which decides nothing," if status == "shadow" else f" as {status}" if status != "active" else ""
    )
    whom = f"{what}{how} for all records from now on."
    if rule is not None and rule.share is not None and keys_of(rule.share) < keys_of(None) and status == "active":
        others = f"; version {live} goes on for the others" if live else ""
        whom = f"Version {request.version} decides about {rule.share} of keys from now on{others}."
    was = body["live"]
    now = f" (now {was['alerts_per_day']:,.1f})" if was else ""
    return f"{whom} Predicted: {prediction_text(body)}{now}. You can roll back; alerts already raised stay."


def _why_not(asked: PageRequest, request: Request) -> str:
    """Why who looks cannot decide; empty: he can."""
    if request.state != "waiting":
        return f"{request.decided_by} {request.state} it."
    if not asked.allows(SCOPE):
        return f"To approve needs the scope {SCOPE}, which {asked.who.name} has not."
    try:
        check_may_decide(request, asked.who.name)
        check_one_user(asked.parts.deps.config)
    except PermanentError as error:
        return _ask(asked, str(error), request)
    except ProblemError as error:
        return error.detail
    return ""


def _ask(asked: PageRequest, why: str, request: Request) -> str:
    """With whom to ask: local users who may."""
    able = [
        each.name
        for each in asked.parts.users.listed()
        if SCOPE in each.scopes and each.disabled_ms is None and each.name != request.who
    ]
    return f"{why.partition(':')[0]}: you wrote it. Ask one of {', '.join(able)}." if able else f"{why}."


PAGE = Page(
    "approvals",
    (
        PageRoute("GET", "/approvals", view),
        PageRoute("POST", "/approvals/versions", approve_version),
        PageRoute("GET", "/approvals/{number}", one),
        PageRoute("GET", "/approvals/{number}/proof.json", proof),
        PageRoute("POST", "/approvals/{number}/approve", approve),
        PageRoute("POST", "/approvals/{number}/reject", reject),
    ),
    label="Approvals",
    group="Rules",
    count=waits,
)
