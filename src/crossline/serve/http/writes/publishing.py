"""Puts an approved text where a pipeline loads it: in the name of who wrote it, with who approved beside it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool

from crossline.basics.errors import CrosslineError, RetryableError
from crossline.logs import get_logger
from crossline.rule_registry.sources.folder import Files
from crossline.serve.approvals.file import ApprovalFile
from crossline.serve.approvals.submission import digest_beneath
from crossline.serve.approvals.values import Request, text_digest
from crossline.serve.http.commands import Commands
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.problems import ProblemError, conflict
from crossline.serve.http.reads.rules import current_of, versions_of
from crossline.serve.http.writes import changes
from crossline.serve.http.writes.bodies import RuleFile

log = get_logger(__name__)


async def publish_approved(
    deps: Dependencies, commands: Commands, request: Request, who: str, proof: Mapping[str, Any]
) -> list[Any]:
    """What became of each rule of the text. ``who``: who approved. Raises ProblemError if it may not follow.

    Done again after it was done, or half, it ends as if done once.
    """
    file = RuleFile(name=request.name, text=request.text)
    done = await changes.put(deps, commands, request.who, file, partial(check_beneath, request))
    rows = list(done["items"])
    if deps.config.rules.review == "none":
        return rows
    of = (request.rule_id, request.version)
    return [*rows, await changes.approve(deps, commands, who, of, proof)]


async def finish_left(deps: Dependencies, commands: Commands, kept: ApprovalFile) -> None:
    """Publish what a second person approved before this process, and a server that ended did not publish.

    What may not follow any more waits again, and a warning has the reason; what cannot be reached stays for the next
    start.
    """
    for request in await run_in_threadpool(kept.unfinished):
        proof = await run_in_threadpool(kept.proof, request.proof_id)
        of = {"number": request.number, "rule_id": request.rule_id, "version": request.version}
        try:
            await publish_approved(
                deps, commands, request, str(request.decided_by), {} if proof is None else proof.content
            )
        except RetryableError as error:
            log.warning("an approved version is not published yet", **of, error=str(error))
            continue
        except (ProblemError, CrosslineError) as error:
            if not await run_in_threadpool(_is_published, deps, request):
                log.warning("an approved version cannot be published, and waits again", **of, error=str(error))
                await run_in_threadpool(kept.reopen, request.number)
                continue
        await run_in_threadpool(kept.note_done, request.number, deps.now_ms())


def _is_published(deps: Dependencies, request: Request) -> bool:
    """Whether a pipeline took the version up: it may have moved on since."""
    try:
        row = current_of(versions_of(deps.config, request.rule_id), request.version)
    except ProblemError:
        return False
    return bool(row["live"])


def check_beneath(request: Request, files: Files) -> None:
    """Raise ProblemError (409) if the file that a text replaces is another than when approval was asked for."""
    there = digest_beneath(files, request.name)
    if request.beneath is None or there in {request.beneath, text_digest(request.text)}:
        return
    became = "is gone" if not there else "was made" if not request.beneath else "was changed"
    raise conflict(
        f"{request.name} {became} in the folder of rules since approval of version {request.version} of "
        f"{request.rule_id} was asked for, and approving would undo that. Nothing was done. Look at the file, reject "
        "this request, and ask again for a text that has what is wanted of both"
    )
