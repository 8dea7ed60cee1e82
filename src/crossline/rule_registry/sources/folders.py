"""Changes to a folder of rules that are files beside them: approvals, and releases; and the folder with its logs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossline.basics.errors import PermanentError
from crossline.rule_registry.atomic_files import held, replace_file
from crossline.rule_registry.content import content_in_folder
from crossline.rule_registry.directory import find_log, logs_in
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.file_check import judge
from crossline.rule_registry.history import History
from crossline.rule_registry.lists import names_in
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.publish import RuleFolder, no_rule
from crossline.rule_registry.rule_files import FileRule, Known, folder_of_rules, read_files
from crossline.rule_registry.sources.origin import UNKNOWN
from crossline.rule_registry.sources.ownership import APPROVALS, OwnedFolder, me, origins_in, owner_of
from crossline.rule_registry.sources.principals import ALPHABET, name_problem, same_principal
from crossline.rule_registry.sources.releases import BYTES_MAX, RELEASES, check_release, release_name
from crossline.rule_registry.sources.review import approval_text, check_proof, review_digest, reviewed, split
from crossline.rules.base import Rule
from crossline.rules.holds.release import Key

if TYPE_CHECKING:
    from crossline.settings.config import PipelineConfig

_BYTES_MAX = 4_096


def known_of(config: PipelineConfig) -> Known:
    """What the rules of a pipeline are checked against; its paths are joined to its folder."""
    from crossline.settings.sinks import rule_topics  # noqa: PLC0415 - whichever process has a pipeline has loaded it
    from crossline.settings.sources import ControlTopic  # noqa: PLC0415 - as above

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


def folder_with_logs(rules: Path, known: Known, in_name_of: str | None = None) -> RuleFolder:
    """The folder with the logs of all pipelines on it: what is written has to be right for each."""
    logs = [events for path in logs_in(rules).values() if (events := read_log(path))]
    return RuleFolder(rules, [History(events) for events in logs], known, in_name_of)


def approve_in_folder(
    folder: RuleFolder,
    rule_id: str,
    version: int | None,
    who: str,
    proof: Any = None,
    check: Callable[[Rule], None] | None = None,
) -> FileRule:
    """The version (the highest there is) of which ``who`` approves; the approval is written beside the rules.

    In a folder that a server writes in other names, the approval names its author. ``check`` of the rule that stands
    there raises where it is another than was looked at.

    Raises PermanentError where there is no such version, ``who`` may have published it, or ``proof`` is of other words.
    """
    path = folder.path
    with held(path):
        standing, _ = folder.rules()
        mine = [each for each in standing if each.rule.rule_id == rule_id and version in {None, each.rule.version}]
        if not mine:
            raise no_rule(rule_id, {each.rule.rule_id for each in standing}, version)
        each = mine[-1]
        _check_second(folder, each, who)
        if check is not None:
            check(each.rule)
        if proof is not None:
            check_proof(proof, each.rule, folder.read_one)
        approvals = path / APPROVALS
        approvals.mkdir(exist_ok=True)
        named = folder.in_name_of is not None
        mark = hashlib.sha256(who.encode()).hexdigest()[:24] if named else who  # a principal may be called a/b
        file = approvals / f"{rule_id}.{each.rule.version}.{mark}.json"
        text = approval_text(each.rule, proof, who if named else None)
        replace_file(file, text, content_in_folder(file, _BYTES_MAX))
        return each


def _check_second(folder: RuleFolder, each: FileRule, who: str) -> None:
    """Raise PermanentError where ``who`` may have had a hand in the version, by its file, its statement or a log."""
    rule, file = each.rule, folder.path / each.source
    origin = origins_in(folder_of_rules(folder.path)).get(each.source, UNKNOWN)
    asked = (rule.rule_id, rule.version, review_digest(rule))
    authors = [origin.who, origin.author, *(history.waiting.get(asked) for history in folder.histories)]
    if folder.in_name_of is None:
        authors.append(owner_of(file))  # who owns the file and approves as a user of the machine is one
    for name in (who, *authors):
        if name is not None and (problem := name_problem(name)) is not None:
            raise PermanentError(f"found a user who has {problem}; expected one whose name has {ALPHABET}")
    for author in authors:
        if author is not None and same_principal(author, who):
            raise PermanentError(
                f"version {rule.version} of {rule.rule_id} is {author}'s, whose file {file} is; expected another one's "
                "approval"
            )
    if origin.who is None:
        raise PermanentError(f"found no owner of {file}, who would be its publisher; expected a file with an owner")


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


def waiting_in_folder(path: Path, known: Known, history: History, *, proven: bool) -> list[Rule]:
    """The versions that a pipeline with this ``history`` finds waiting for approval, of files as they stand."""
    files, approvals = split(OwnedFolder(folder_of_rules(path), speaker=me()).changed() or {})
    read = read_files(files, known.with_heads(history.heads))
    accepted, _ = judge(read, history)
    return [each.rule for each in reviewed(read, accepted, files, approvals, history, proven=proven).waiting]
