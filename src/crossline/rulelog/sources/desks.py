"""Changes to a folder of rules that are files beside them: approvals, and releases; and the folder with its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crossline.core.basics.errors import PermanentError
from crossline.core.rules.holds.release import Key
from crossline.core.settings.config import PipelineConfig
from crossline.core.settings.sinks import rule_topics
from crossline.core.settings.sources import ControlTopic
from crossline.rulelog.content import content_in_folder
from crossline.rulelog.directory import find_log, logs_in
from crossline.rulelog.events import RuleEvent
from crossline.rulelog.history import History
from crossline.rulelog.lists import names_in
from crossline.rulelog.logfile import read_log
from crossline.rulelog.publish import RuleFolder, no_rule
from crossline.rulelog.reading import FileRule, Known
from crossline.rulelog.sources.owned import APPROVALS, owner_of
from crossline.rulelog.sources.principals import ALPHABET, name_problem, same_principal
from crossline.rulelog.sources.releases import BYTES_MAX, RELEASES, check_release, release_name
from crossline.rulelog.sources.review import approval_text, check_proof
from crossline.rulelog.writing import held, replace_file

_BYTES_MAX = 4_096


def known_of(config: PipelineConfig) -> Known:
    """What the rules of a pipeline are checked against; its paths are joined to its folder."""
    if isinstance(config.lists, ControlTopic):
        names = None  # what stands in a topic is not looked for
    else:
        names = names_in(config.lists.path) if config.lists is not None else []
    shared = Path(config.figures) if config.figures is not None else None
    return Known(config.streams, names, rule_topics(config.sinks), figures=shared)


def folder_with_log(
    rules: Path, pipeline: str | None, figures: Path | None = None
) -> tuple[RuleFolder, list[RuleEvent] | None]:
    """The folder with one log, and its events; None where no pipeline has run on it."""
    path = find_log(rules, pipeline)
    events = read_log(path) if path is not None else []
    return RuleFolder(rules, [History(events)] if events else [], Known(figures=figures)), events or None


def folder_with_logs(rules: Path, known: Known) -> RuleFolder:
    """The folder with the logs of all pipelines on it: what is written has to be right for each."""
    logs = [events for path in logs_in(rules).values() if (events := read_log(path))]
    return RuleFolder(rules, [History(events) for events in logs], known)


def approve_in_folder(folder: RuleFolder, rule_id: str, version: int | None, who: str, proof: Any = None) -> FileRule:
    """The version (the highest there is) of which ``who`` approves; the approval is written beside the rules.

    Raises PermanentError where there is no such version, ``who`` may have published it, or ``proof`` is of other words.
    """
    path = folder.path
    with held(path):
        standing, _ = folder.rules()
        mine = [each for each in standing if each.rule.rule_id == rule_id and version in {None, each.rule.version}]
        if not mine:
            raise no_rule(rule_id, {each.rule.rule_id for each in standing}, version)
        each = mine[-1]
        author = owner_of(path / each.source)
        for name in (who, author):
            if name is not None and (problem := name_problem(name)) is not None:
                raise PermanentError(f"found a user who has {problem}; expected one whose name has {ALPHABET}")
        if same_principal(author, who):
            raise PermanentError(
                f"version {each.rule.version} of {rule_id} is {author}'s, whose file {path / each.source} is; expected "
                "another one's approval"
            )
        if proof is not None:
            check_proof(proof, each.rule, folder.read_one)
        approvals = path / APPROVALS
        approvals.mkdir(exist_ok=True)
        file = approvals / f"{rule_id}.{each.rule.version}.{who}.json"
        replace_file(file, approval_text(each.rule, proof), content_in_folder(file, _BYTES_MAX))
        return each


def release_in_folder(rules: Path, figures: Path | None, rule_id: str, key: Key, text: bytes) -> None:
    """The release as a file beside the rules, where one of these holds such a key. Raises PermanentError else."""
    folder = folder_with_logs(rules, Known(figures=figures))
    with held(rules):
        standing = [each.rule for each in folder.rules()[0]]
        versions = {rule.version: rule for rule in standing if rule.rule_id == rule_id}
        for history in folder.histories:
            if rule_id in history.rules:
                versions |= history.rules[rule_id].versions
        if not versions:
            raise no_rule(rule_id, {rule.rule_id for rule in standing})
        check_release(rule_id, key, "", versions)
        beside = rules / RELEASES
        beside.mkdir(exist_ok=True)
        file = beside / f"{rule_id}.{release_name(rule_id, key).mark}.json"
        replace_file(file, text, content_in_folder(file, BYTES_MAX))
