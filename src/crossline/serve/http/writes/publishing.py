"""Puts an approved text where a pipeline takes it up: in the name of who wrote it, with who approved beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool

from crossline.core.settings.config import PipelineConfig
from crossline.core.settings.sources import RulesTopic
from crossline.rulelog.sources.owned import user_name
from crossline.serve.approvals.values import Request
from crossline.serve.http.commands import Commands
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.problems import conflict
from crossline.serve.http.writes.rules import RuleFile, of_topic, published, rows_of, sent

WAIT_S = 60.0


def check_folder_review(config: PipelineConfig) -> None:
    """Raise ProblemError (409) where nobody could tell from the files who wrote and who approved."""
    if isinstance(config.rules, RulesTopic) or config.rules.review == "none":
        return
    me = user_name(os.geteuid())
    raise conflict(
        f"rules are files of a folder with review: {config.rules.review}: who owns a file published it, and all that "
        f"this server writes is {me}'s, so that no second person could be told. Nothing was done. Publish the text as "
        "your own file with crossline rules publish, and have another user of the machine run crossline rules "
        "approve; or have rules of kind kafka, where people publish and approve under their names"
    )


async def publish_approved(
    deps: Dependencies, commands: Commands, request: Request, who: str, proof: Mapping[str, Any]
) -> list[Any]:
    """What became of each rule of the text. ``who``: who approved. Raises ProblemError where it may not follow."""
    file = RuleFile(name=request.name, text=request.text)
    content = file.checked()
    if not isinstance(deps.config.rules, RulesTopic):
        said = await run_in_threadpool(published, deps, file.name, content)
        return list(said["items"])
    rows = list(await sent(deps, commands, request.who, file))
    if deps.config.rules.review == "none":
        return rows
    with TemporaryDirectory(prefix="crossline-proof-") as folder:
        path = Path(folder) / "proof.json"
        path.write_bytes(orjson.dumps(dict(proof)))
        asked = ["rules", "approve", request.rule_id, "--version", str(request.version), "--proof", str(path)]
        return rows + rows_of(await commands.run([*asked, *of_topic(deps, who)], WAIT_S))
