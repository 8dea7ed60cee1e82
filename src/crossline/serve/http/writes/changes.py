"""Rules are changed where a pipeline takes them up, a folder or a topic, in the name of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool

from crossline.basics.errors import PermanentError
from crossline.rule_registry.directory import log_path
from crossline.rule_registry.outcomes.overview import written_row
from crossline.rule_registry.publish import RuleFolder
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.folders import approve_in_folder, folder_with_logs, known_of
from crossline.rule_registry.sources.ownership import me, owner_of
from crossline.rules.base import Rule
from crossline.serve.http.commands import CommandResult, Commands, without_folder
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.problems import ProblemError, conflict
from crossline.serve.http.writes.bodies import NewShare, NewStatus, RuleFile
from crossline.settings.config import PipelineConfig
from crossline.settings.sources import RulesTopic


def check_one_user(config: PipelineConfig) -> None:
    """Raise ProblemError (409) if a pipeline would not trust this process's statements of who published."""
    if isinstance(config.rules, RulesTopic) or config.rules.review == "none":
        return
    runs, mine = owner_of(log_path(config.rules.path, config.name)), me()
    if runs not in {None, mine}:
        raise conflict(
            f"the rules are files of a folder with review: {config.rules.review}, its pipeline is run by the user "
            f"{runs}, and this server by {mine}: the pipeline would take all that the server writes for {mine}'s, "
            f"the caller. Nothing was done. Run both as one user; or have rules of kind kafka"
        )


async def put(
    deps: Dependencies,
    commands: Commands,
    who: str,
    file: RuleFile,
    check: Callable[[Files], None] | None = None,
) -> Mapping[str, Any]:
    """Publish a file. ``check`` of the files of a folder raises where it may not follow them."""
    content = file.checked()
    if isinstance(deps.config.rules, RulesTopic):
        return {"items": await _sent(deps, commands, who, file)}

    def written() -> Mapping[str, Any]:
        publication = _folder(deps, who).put(file.name, content, shown_as=file.name, check=check)
        rows = [_named(written_row(each)) for each in publication.rules]
        return {"items": rows, "left_out": list(publication.left_out)}

    return await run_in_threadpool(written)


async def approve(
    deps: Dependencies,
    commands: Commands,
    who: str,
    of: tuple[str, int],
    proof: Mapping[str, Any] | None = None,
    check: Callable[[Rule], None] | None = None,
) -> Any:
    """Approve of version ``of``, by its ``proof``. ``check`` of the rule in a folder: that it was looked at.

    Raises ProblemError (409) if ``who`` may have published it, or the review asks for a proof.
    """
    rule_id, version = of
    if deps.config.rules.review == "none" and not isinstance(deps.config.rules, RulesTopic):
        raise conflict(
            f"the rules have no review, so version {version} of {rule_id} is effective once a pipeline loads it; "
            "nothing was done. Set rules.review, where a second person is to approve"
        )
    if deps.config.rules.review == "proven" and proof is None:
        raise conflict(
            f"found no proof_id; expected the proof of the version, {version} of {rule_id}, since the review is: "
            "proven: run POST /v1/rules:prove of its text, or ask for approval of it by POST /v1/approvals"
        )
    if isinstance(deps.config.rules, RulesTopic):
        asked = ["rules", "approve", rule_id, "--version", str(version)]
        if proof is None:
            return rows_of(await commands.run([*asked, *of_topic(deps, who)], deps.waits.answer_s))[0]
        with TemporaryDirectory(prefix="crossline-proof-") as folder:
            path = Path(folder) / "proof.json"
            path.write_bytes(orjson.dumps(dict(proof)))
            done = await commands.run([*asked, "--proof", str(path), *of_topic(deps, who)], deps.waits.answer_s)
        return rows_of(done)[0]

    def approved() -> Any:
        try:
            each = approve_in_folder(_folder(deps, who), rule_id, version, who, proof, check)
        except PermanentError as error:
            raise conflict(str(error).replace(f"{deps.config.rules.path}/", "")) from None
        return {"rule_id": rule_id, "version": each.rule.version, "change": "approved", "who": who}

    return await run_in_threadpool(approved)


async def set_status(deps: Dependencies, commands: Commands, who: str, rule_id: str, wanted: NewStatus) -> Any:
    """As ``crossline rules set-status`` writes or sends it."""
    if isinstance(deps.config.rules, RulesTopic):
        return await _set_there(deps, commands, who, ["set-status", rule_id, wanted.status], wanted.version)

    def written() -> Any:
        return _named(written_row(_folder(deps, who).set_status(rule_id, wanted.status, wanted.version)))

    return await run_in_threadpool(written)


async def set_share(deps: Dependencies, commands: Commands, who: str, rule_id: str, wanted: NewShare) -> Any:
    """As ``crossline rules set-share`` writes or sends it."""
    share = wanted.checked()
    if isinstance(deps.config.rules, RulesTopic):
        return await _set_there(deps, commands, who, ["set-share", rule_id, share], wanted.version)

    def written() -> Any:
        return _named(written_row(_folder(deps, who).set_share(rule_id, share, wanted.version)))

    return await run_in_threadpool(written)


def _folder(deps: Dependencies, who: str) -> RuleFolder:
    """The folder of the rules; under review a file that is written there names its author."""
    config = deps.config
    check_one_user(config)
    in_name_of = None if config.rules.review == "none" else who
    return folder_with_logs(Path(config.rules.path), known_of(config), in_name_of)


async def _set_there(deps: Dependencies, commands: Commands, who: str, act: Sequence[str], version: int | None) -> Any:
    which = [] if version is None else ["--version", str(version)]
    return rows_of(await commands.run(["rules", *act, *which, *of_topic(deps, who)], deps.waits.answer_s))[0]


async def _sent(deps: Dependencies, commands: Commands, who: str, file: RuleFile) -> Sequence[Any]:
    """As ``crossline rules publish`` sends it to a topic, in the name of ``who``."""
    with TemporaryDirectory(prefix="crossline-publish-") as folder:
        path = Path(folder) / file.name
        path.write_bytes(file.text.encode())
        try:
            done = await commands.run(["rules", "publish", str(path), *of_topic(deps, who)], deps.waits.answer_s)
        except ProblemError as error:
            detail = without_folder(error.detail, Path(folder))
            raise ProblemError(error.status, error.kind, detail, error.errors) from None
    return rows_of(done)


def of_topic(deps: Dependencies, who: str) -> list[str]:
    """The options of a command on the topic, in the name of ``who``."""
    return ["--pipeline", str(deps.pipeline), "--as", who, "--json"]


def rows_of(done: CommandResult) -> list[Any]:
    """What a command answered: one JSON value a line."""
    return [orjson.loads(line) for line in done.out.splitlines() if line.strip()]


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """Files by their names: the path of the folder is not shown."""
    return {**row, "file": Path(row["file"]).name}
