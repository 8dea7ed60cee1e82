"""What waits for a second person is answered as such: 202, with what the approval wants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from starlette.responses import Response

from crossline.rule_registry.content import FileContent
from crossline.rule_registry.file_check import judge_files
from crossline.rule_registry.history import History
from crossline.rule_registry.sources.folders import known_of, waiting_in_folder
from crossline.rule_registry.sources.review import needs_approval
from crossline.rules.base import Rule
from crossline.serve.http.etags import check_match
from crossline.serve.http.queries import json_answer
from crossline.serve.http.reads.rulebook import log_of
from crossline.serve.http.reads.rules import tags_of_rule
from crossline.settings.config import PipelineConfig
from crossline.settings.sources import RulesTopic

APPROVE = "/v1/rules:approve"
WAITS: dict[int | str, dict[str, Any]] = {
    202: {"description": "Under review it waits for a second person; `waits` has the body for `/v1/rules:approve`."}
}


def pending_answer(
    config: PipelineConfig,
    body: Mapping[str, Any],
    rows: Collection[Mapping[str, Any]],
    content: FileContent | None = None,
) -> Response:
    """What was done, as ``body``; 202 where any of ``rows`` waits. ``content``: the file that was published."""
    waits = (
        []
        if config.rules.review == "none"
        else [_approval_needed(config, each) for each in _waiting(config, rows, content)]
    )
    if not waits:
        return json_answer(body)
    at = f"/v1/rules/{waits[0]['rule_id']}/versions"
    return json_answer({**body, "waits": waits}, 202, {"Location": at, "ETag": waits[0]["etag"]})


def check_rule(config: PipelineConfig, if_match: str | None, rule: Rule) -> None:
    """Raise ProblemError (412) unless ``rule``, as it stands in a folder, is what was looked at."""
    tag, *more = tags_of_rule(config, rule)
    check_match(if_match, tag, f"version {rule.version} of {rule.rule_id}", more)


def _approval_needed(config: PipelineConfig, rule: Rule) -> dict[str, Any]:
    tag = tags_of_rule(config, rule)[0]
    return {"rule_id": rule.rule_id, "version": rule.version, "status": rule.status, "approve": APPROVE, "etag": tag}


def _waiting(config: PipelineConfig, rows: Collection[Mapping[str, Any]], content: FileContent | None) -> list[Rule]:
    """Of the versions of ``rows`` those that need an approval that is not there yet."""
    folder, _ = log_of(config)
    history = folder.histories[0] if folder.histories else History()
    names = {(each.get("rule_id"), each.get("version")) for each in rows}  # a shared figure has no rule_id
    if not isinstance(config.rules, RulesTopic):
        waiting = waiting_in_folder(folder.path, known_of(config), history, proven=config.rules.review == "proven")
        return [each for each in waiting if (each.rule_id, each.version) in names]
    if content is not None:
        accepted, _ = judge_files({"rules.yaml": content}, History(), known_of(config))
        new = [each.rule for each in accepted if (each.rule.rule_id, each.rule.version) in names]
    else:
        new = [each for row in rows if (each := _logged(history, row)) is not None]
    return [each for each in new if history.moves(each) and needs_approval(each, history)]


def _logged(history: History, row: Mapping[str, Any]) -> Rule | None:
    """A version of the log with what was set of it; None: the log does not know it."""
    versions = history.rules[row["rule_id"]].versions if row.get("rule_id") in history.rules else {}
    known = versions.get(int(row.get("version", 0)))
    if known is None:
        return None
    return known.model_copy(update={name: row[name] for name in ("status", "share") if name in row})
