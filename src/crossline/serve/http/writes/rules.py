"""``/v1/rules:…``: rules are checked, tried, published, approved of, by the functions of the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.concurrency import run_in_threadpool

from crossline.core.basics.errors import PermanentError
from crossline.core.basics.share import read_share
from crossline.core.settings.sources import RulesTopic
from crossline.core.texts.problems import shown
from crossline.core.texts.yamltext import SIZE_MAX
from crossline.rulelog.content import FileContent
from crossline.rulelog.history import History
from crossline.rulelog.judging import judge_files
from crossline.rulelog.outcomes.overview import written_row
from crossline.rulelog.outcomes.warnings import warnings_of
from crossline.rulelog.reading import SUFFIXES
from crossline.rulelog.sources.desks import approve_in_folder, folder_with_logs, known_of
from crossline.rulelog.sources.owned import user_name
from crossline.serve.http.commands import Commands, Done, without_folder
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import check_match
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.problems import ProblemError, invalid, pointer_of
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.rules import RuleName, tag_of_version

WAIT_S = 60.0
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)

IfMatch = Annotated[str | None, Header(max_length=1_000, description="ETag of the version that was looked at, or `*`.")]


class Body(BaseModel):
    """A body; names that it does not have are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def check_values(cls, given: Any) -> Any:
        """Refuse what JSON may write and nothing can keep: half a surrogate pair, a number of more than 64 bits."""
        try:
            orjson.dumps(given)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"text in UTF-8 and numbers of 64 bits ({error})") from None
        return given


class RuleFile(Body):
    """A file of rules."""

    name: str = Field(default="rules.yaml", max_length=104, description="What the file is called in the folder.")
    text: str = Field(max_length=SIZE_MAX, description="What stands in it: YAML or JSON, a rule or a list of rules.")

    def checked(self) -> FileContent:
        """Its bytes. Raises ProblemError for a name that is none."""
        if _FILE.fullmatch(self.name) is None or not self.name.endswith(SUFFIXES):
            raise invalid(
                "/name", shown(self.name), f"letters, digits, _ . -, at most 100, that end in {', '.join(SUFFIXES)}"
            )
        return FileContent(self.text.encode())


class PublishedFile(RuleFile):
    """A file of rules that is to be published under its name."""

    name: str = Field(max_length=104, description="What the file is called in the folder: it replaces that one.")


class Approval(Body):
    """Of which version somebody approves."""

    rule_id: str = Field(max_length=200, description="Name of the rule.")
    version: int = Field(ge=1, lt=2**31, description="The version that was looked at.")


class NewStatus(Body):
    """Another status of a version."""

    status: Literal["draft", "shadow", "active", "paused", "retired"] = Field(description="The new status.")
    version: int | None = Field(default=None, ge=1, lt=2**31, description="The version; by default the highest.")


class NewShare(Body):
    """Another share of keys of a version."""

    share: str = Field(max_length=20, description="Of its keys, such as `10%`; the version before has the others.")
    version: int | None = Field(default=None, ge=1, lt=2**31, description="The version; by default the highest.")


def rule_writes(deps: Dependencies, commands: Commands) -> APIRouter:
    """The routes that check and change rules."""
    routes = APIRouter(tags=["rules"])

    @routes.post("/v1/rules:check", openapi_extra=needs("rules:draft"), summary="Check a file of rules")
    def check(request: Request, file: RuleFile) -> Any:
        """Everything that is wrong with it; ``200`` in any case."""
        only_known(request)
        return json_answer(checked(deps, file))

    @routes.post("/v1/rules:publish", openapi_extra=needs("rules:draft"), summary="Publish a file of rules")
    async def publish(request: Request, file: PublishedFile, who: Asking) -> Any:
        """It is put into the folder, or sent to the topic, if it is right and may follow what is live."""
        only_known(request)
        content = file.checked()
        if isinstance(deps.config.rules, RulesTopic):
            return json_answer({"items": await sent(deps, commands, who.name, file)})
        return json_answer(await run_in_threadpool(published, deps, file.name, content))

    @routes.post("/v1/rules:approve", openapi_extra=needs("rules:approve"), summary="Approve of a version")
    async def approve(request: Request, wanted: Approval, who: Asking, if_match: IfMatch = None) -> Any:
        """Of a version that somebody else published; where a review is required, it is effective from then on."""
        only_known(request)
        await run_in_threadpool(_check_version, deps, wanted.rule_id, wanted.version, if_match)
        if isinstance(deps.config.rules, RulesTopic):
            asked = ["rules", "approve", wanted.rule_id, "--version", str(wanted.version)]
            return json_answer(rows_of(await commands.run([*asked, *of_topic(deps, who.name)], WAIT_S))[0])
        return json_answer(await run_in_threadpool(approved, deps, wanted))

    @routes.post(
        "/v1/rules/{rule_id}:set-status", openapi_extra=needs("rules:approve"), summary="Set the status of a version"
    )
    async def set_status(
        request: Request, rule_id: RuleName, wanted: NewStatus, who: Asking, if_match: IfMatch = None
    ) -> Any:
        """If the move is legal; comments and layout of its file stay."""
        only_known(request)
        await run_in_threadpool(_check_version, deps, rule_id, wanted.version, if_match)
        if isinstance(deps.config.rules, RulesTopic):
            which = [] if wanted.version is None else ["--version", str(wanted.version)]
            asked = ["rules", "set-status", rule_id, wanted.status, *which]
            return json_answer(rows_of(await commands.run([*asked, *of_topic(deps, who.name)], WAIT_S))[0])
        return json_answer(await run_in_threadpool(status_set, deps, rule_id, wanted))

    @routes.post("/v1/rules/{rule_id}:set-share", openapi_extra=needs("rules:approve"), summary="Set the share of keys")
    async def set_share(
        request: Request, rule_id: RuleName, wanted: NewShare, who: Asking, if_match: IfMatch = None
    ) -> Any:
        """For which an active version decides: a share that grows keeps its keys; `0%` leaves all to the one before."""
        only_known(request)
        share = checked_share(wanted.share)
        await run_in_threadpool(_check_version, deps, rule_id, wanted.version, if_match)
        if isinstance(deps.config.rules, RulesTopic):
            which = [] if wanted.version is None else ["--version", str(wanted.version)]
            asked = ["rules", "set-share", rule_id, share, *which]
            return json_answer(rows_of(await commands.run([*asked, *of_topic(deps, who.name)], WAIT_S))[0])
        return json_answer(await run_in_threadpool(share_set, deps, rule_id, share, wanted.version))

    return routes


def checked_share(text: str) -> str:
    """A share as it was written. Raises ProblemError for what is none."""
    try:
        return read_share(text)
    except ValueError as error:
        raise invalid("/share", shown(text), str(error).removeprefix("expected ")) from None


def checked(deps: Dependencies, file: RuleFile) -> Mapping[str, Any]:
    """What is wrong with a file, as ``crossline rules check --json`` tells it, with pointers into it."""
    content = file.checked()
    known = known_of(deps.config)
    folder = folder_with_logs(Path(deps.config.rules.path), known)
    for history in folder.histories:
        known = known.with_heads(history.heads)
    taken, refused = judge_files({file.name: content}, History(), known)
    problems = [problem for error in refused.values() for problem in error.problems]
    warnings = [each for item in taken for each in warnings_of(item)]
    return {
        "ok": not problems and bool(taken),
        "rules": [{"rule_id": each.rule.rule_id, "version": each.rule.version} for each in taken],
        "problems": [_problem(each) for each in problems],
        "warnings": [_problem(each) for each in warnings],
    }


def published(deps: Dependencies, name: str, content: FileContent) -> Mapping[str, Any]:
    """As ``crossline rules publish`` puts it into the folder."""
    folder = folder_with_logs(Path(deps.config.rules.path), known_of(deps.config))
    publication = folder.put(name, content, shown_as=name)
    rows = [_named(written_row(each)) for each in publication.rules]
    return {"items": rows, "left_out": list(publication.left_out)}


def approved(deps: Dependencies, wanted: Approval) -> Mapping[str, Any]:
    """As ``crossline rules approve`` writes it, by the user of this process."""
    me = user_name(os.geteuid())
    folder = folder_with_logs(Path(deps.config.rules.path), known_of(deps.config))
    try:
        each = approve_in_folder(folder, wanted.rule_id, wanted.version, me)
    except PermanentError as error:
        raise ProblemError(
            409,
            "conflict",
            f"{error}. Of files in a folder who owns them counts, and all that this API writes is {me}'s: have rules "
            "of kind kafka, where principals publish and approve under their names, or approve with crossline rules "
            "approve as another user",
        ) from None
    return {"rule_id": each.rule.rule_id, "version": each.rule.version, "change": "approved", "who": me}


def status_set(deps: Dependencies, rule_id: str, wanted: NewStatus) -> Mapping[str, Any]:
    """As ``crossline rules set-status`` writes it."""
    folder = folder_with_logs(Path(deps.config.rules.path), known_of(deps.config))
    return _named(written_row(folder.set_status(rule_id, wanted.status, wanted.version)))


def share_set(deps: Dependencies, rule_id: str, share: str, version: int | None) -> Mapping[str, Any]:
    """As ``crossline rules set-share`` writes it."""
    folder = folder_with_logs(Path(deps.config.rules.path), known_of(deps.config))
    return _named(written_row(folder.set_share(rule_id, share, version)))


def _check_version(deps: Dependencies, rule_id: str, version: int | None, if_match: str | None) -> None:
    """Raise ProblemError unless the version was looked at as it is."""
    number, tag = tag_of_version(deps.config, rule_id, version)
    check_match(if_match, tag, f"version {number} of {rule_id}")


async def sent(deps: Dependencies, commands: Commands, who: str, file: RuleFile) -> Sequence[Any]:
    """As ``crossline rules publish`` sends it to a topic, in the name of ``who``."""
    with TemporaryDirectory(prefix="crossline-publish-") as folder:
        path = Path(folder) / file.name
        path.write_bytes(file.text.encode())
        try:
            done = await commands.run(["rules", "publish", str(path), *of_topic(deps, who)], WAIT_S)
        except ProblemError as error:
            said = without_folder(error.detail, Path(folder))
            raise ProblemError(error.status, error.kind, said, error.errors) from None
    return rows_of(done)


def of_topic(deps: Dependencies, who: str) -> list[str]:
    """The options of a command on the topic, in the name of ``who``."""
    return ["--pipeline", str(deps.pipeline), "--as", who, "--json"]


def rows_of(done: Done) -> list[Any]:
    """What a command answered: one JSON value a line."""
    return [orjson.loads(line) for line in done.out.splitlines() if line.strip()]


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """Files by their names: where the folder lies is nobody's business."""
    return {**row, "file": Path(row["file"]).name}


def _problem(each: Any) -> dict[str, Any]:
    place = {"line": each.line, "path": each.path, "snippet": each.snippet}
    said = {"found": each.found, "expected": each.expected, "hint": each.hint}
    return {"pointer": pointer_of(each.path), **said, **place}
