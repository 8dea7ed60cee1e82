"""Asking for approval of a text: one rule that is right, newer than what is there, and proven."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path

from crossline.basics.texts.problems import RefusedError
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.rule_files import folder_of_rules, read_files
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.folders import known_of
from crossline.serve.approvals.file import ApprovalFile
from crossline.serve.approvals.texts import text_of, the_rule
from crossline.serve.approvals.values import Request
from crossline.serve.http.problems import ProblemError, invalid
from crossline.serve.http.reads.rules import current_of, versions_of
from crossline.settings.config import PipelineConfig
from crossline.settings.sources import RulesTopic


def ask_for(config: PipelineConfig, kept: ApprovalFile, text: str, who: str, now_ms: int) -> Request:
    """The request that is made. ``who``: whose text it is; ``now_ms``: epoch milliseconds.

    Raises ProblemError if the text is no rule or not above what is published, UsageError without a proof of it.
    """
    rule = the_rule(config, text)
    if rule is None:
        raise invalid("/text", "no rule that is right", "one rule without a fault")
    name = f"{rule.rule_id}.yaml"
    try:
        rows = versions_of(config, rule.rule_id)
    except ProblemError:
        rows = []
    if rows:
        last = max(int(each["version"]) for each in rows)
        if rule.version <= last:
            raise invalid("/version", f"version {rule.version}", f"at least {last + 1}, since version {last} is there")
        name = text_of(config, current_of(rows))[1]
    beneath = None
    if not isinstance(config.rules, RulesTopic):
        files = folder_of_rules(Path(config.rules.path)).changed() or {}
        name = _own_file(config, files, rule.rule_id, name)
        beneath = digest_beneath(files, name)
    return kept.ask(rule.rule_id, rule.version, name, text, who, now_ms, beneath)


def digest_beneath(files: Files, name: str) -> str:
    """SHA-256 of the bytes of a file, in hex; empty if there is none."""
    there = files.get(name)
    return "" if there is None else hashlib.sha256(there.data).hexdigest()


def _own_file(config: PipelineConfig, files: Files, rule_id: str, name: str) -> str:
    """``name``, where no other rule stands in that file, which would be lost; else one that no file has."""
    stem = f"rule{rule_id}" if rule_id[0] in ".-" else rule_id
    names: Iterator[str] = chain([name], (f"{stem}.{number}.yaml" for number in count(2)))
    return next(each for each in names if each not in files or _alone(config, each, files[each], rule_id))


def _alone(config: PipelineConfig, name: str, content: FileContent, rule_id: str) -> bool:
    """Whether a file has versions of that rule and nothing else; False if it cannot be read."""
    read = read_files({name: content}, known_of(config))[name]
    return not isinstance(read, RefusedError) and {each.rule.rule_id for each in read} <= {rule_id}
