"""Changes to a control topic, made by a command: checked against what stands there and what is live, then sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.texts.problems import Problem, RefusedError
from crossline.rule_registry.content import FileContent, content_of, text_of
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.file_check import judge
from crossline.rule_registry.history import History
from crossline.rule_registry.publish import again, check_move, no_rule
from crossline.rule_registry.rule_files import NOTHING_KNOWN, SUFFIXES, FileRule, Known, figures_beside, read_files
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.keys import ApprovalKey, FigureKey, RuleKey
from crossline.rule_registry.sources.principals import ALPHABET, name_problem, same_principal
from crossline.rule_registry.sources.releases import check_release, release_name, release_text
from crossline.rule_registry.sources.review import approval_text, check_proof, misplaced, split
from crossline.rule_registry.status_edit import with_share, with_status
from crossline.rules.base import Rule, Status
from crossline.rules.figure_tables import SharedFigure
from crossline.rules.holds.release import Key

Change = Literal["published", "status_changed", "approved", "released", "unchanged"]


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be sent for ``rule``; None: it stands there already. ``change``: what it is to pipelines."""

    rule: Rule | SharedFigure
    key: str
    value: bytes | None
    change: Change


class TopicPublisher:
    """The rules of a topic, as ``files`` has its last messages by key.

    ``histories``: of the logs that are to be had here, those of pipelines that read it. What a pipeline elsewhere has
    logged is for that one to judge: it refuses what may not follow.
    """

    def __init__(self, files: Files, histories: Collection[History] = (), known: Known = NOTHING_KNOWN) -> None:
        self._files, self._approvals = split(files)
        self._histories = tuple(histories)
        for each in self._histories:
            known = known.with_heads(each.heads)
        self._known = known

    @property
    def histories(self) -> tuple[History, ...]:
        """The histories of the rule logs on this machine."""
        return self._histories

    @cached_property
    def rules(self) -> list[FileRule]:
        """The rules that stand there and can be read, by rule and version."""
        read = read_files(self._files, self._known)
        accepted, _ = judge({**read, **misplaced(read)}, History())
        return accepted

    def publish(self, file: Path) -> list[Message]:
        """The messages that the rules and shared figures of ``file`` are; of several each is one, figures first.

        Raises RefusedError where they are wrong, or may not follow what stands in the topic or is live.
        """
        if not file.name.endswith(SUFFIXES):
            raise UsageError(f"found file {file.name}; expected a name that ends in {', '.join(SUFFIXES)}")
        content = content_of(file)
        read = read_files({**self._files, str(file): content}, self._near(file))[str(file)]
        if isinstance(read, RefusedError):
            raise read
        figures = figures_beside(str(file), content, self._near(file))
        if not read and not figures:
            raise UsageError(f"{file}: found no rule and no shared figure; expected one or more")
        shared = {str(FigureKey(each.figure_id, each.version)): each for each, _ in figures}
        new = {str(FigureKey(each.figure_id, each.version)): FileContent(text) for each, text in figures}
        new |= {str(_key(each.rule)): FileContent(_text(each, content)) for each in read}
        self._check(new, {name: str(file) for name in new} if len(new) == 1 else {})
        sent = [self._figure(name, each, new[name].data) for name, each in shared.items()]
        return sent + [self._message(each.rule, new[str(_key(each.rule))].data) for each in read]

    def set_status(self, rule_id: str, status: Status, version: int | None = None) -> Message:
        """The message that gives a version (the highest there is) another status, and changes nothing else of it.

        Raises PermanentError for an illegal move, or where there is no such rule.
        """
        each = self._one(rule_id, version)
        now = self._status(each.rule)
        name = str(_key(each.rule))
        if status == now and self._tripped(each.rule):
            raise again(each.rule)
        if now == each.rule.status == status:
            return Message(each.rule, name, None, "unchanged")
        check_move(rule_id, now, status)
        text = with_status(text_of(name, self._files[name]), name, each.path, status)
        self._check({name: FileContent(text.encode())}, {})
        rule = each.rule.model_copy(update={"status": status})
        return Message(rule, name, text.encode(), "status_changed")

    def set_share(self, rule_id: str, share: str, version: int | None = None) -> Message:
        """The message that gives a version (the highest there is) another share of keys, and changes nothing else.

        Raises PermanentError where there is no such rule, RefusedError where it may have no such share.
        """
        each = self._one(rule_id, version)
        name = str(_key(each.rule))
        if each.rule.share == share:
            return Message(each.rule, name, None, "unchanged")
        text = with_share(text_of(name, self._files[name]), name, each.path, share)
        self._check({name: FileContent(text.encode())}, {})
        return Message(each.rule.model_copy(update={"share": share}), name, text.encode(), "status_changed")

    def approve(self, rule_id: str, who: str, version: int | None = None, proof: Any = None) -> Message:
        """The message by which ``who`` approves of a version (the highest there is), by its ``proof``.

        Raises PermanentError where ``who`` may have published it, it has no publisher, or the proof is of another text.
        """
        if (problem := name_problem(who)) is not None:
            raise PermanentError(f"found an approval by {problem}; expected {ALPHABET}")
        each = self._one(rule_id, version)
        origin = self._files[each.source].origin
        if origin.who is None:
            raise PermanentError(
                f"version {each.rule.version} of {rule_id} does not say who published it; have it published again with "
                "crossline rules publish"
            )
        author = next(
            (name for name in (origin.author, origin.who) if name is not None and same_principal(name, who)), None
        )
        if author is not None:
            raise PermanentError(
                f"version {each.rule.version} of {rule_id} was published by {author}; expected another one's approval"
                + ("" if author == who else f", and {who} may be the same one: names that look alike are one")
            )
        if proof is not None:
            check_proof(proof, each.rule, self._read_one)
        key, value = str(ApprovalKey(rule_id, each.rule.version, who)), approval_text(each.rule, proof)
        known = self._approvals.get(key)
        there = known is not None and known.data == value and known.origin.who == who
        return Message(each.rule, key, None if there else value, "unchanged" if there else "approved")

    def release(self, rule_id: str, key: Key, reason: str, now_ms: int) -> Message:
        """The message by which ``key`` is held no more. Raises PermanentError where the rule holds no such key."""
        versions = {each.rule.version: each.rule for each in self.rules if each.rule.rule_id == rule_id}
        if not versions:
            raise no_rule(rule_id, {each.rule.rule_id for each in self.rules})
        check_release(rule_id, key, reason, versions)
        text = release_text(rule_id, key, reason, now_ms)
        return Message(versions[max(versions)], str(release_name(rule_id, key)), text, "released")

    def author(self, message: Message) -> str | None:
        """Who published what ``message`` has under another status; None for what is new."""
        content = self._files.get(message.key)
        if content is None or message.change != "status_changed":
            return None
        return content.origin.author or content.origin.who

    def _read_one(self, text: str) -> Rule | None:
        """The one rule of a text, as it would stand there."""
        read = read_files({**self._files, "proof.yaml": FileContent(text.encode())}, self._known)["proof.yaml"]
        return read[0].rule if not isinstance(read, RefusedError) and len(read) == 1 else None

    def _near(self, file: Path) -> Known:
        return replace(self._known, folder=file.parent)

    def _one(self, rule_id: str, version: int | None) -> FileRule:
        standing = self.rules
        mine = [each for each in standing if each.rule.rule_id == rule_id and version in {None, each.rule.version}]
        if not mine:
            raise no_rule(rule_id, {each.rule.rule_id for each in standing}, version)
        return mine[-1]

    def _status(self, rule: Rule) -> Status:
        """The status that the version has, which its message may be ahead of."""
        for history in self._histories:
            if history.knows(rule):
                return history.rules[rule.rule_id].versions[rule.version].status
        return rule.status

    def _tripped(self, rule: Rule) -> bool:
        return any(rule.version in each.rules[rule.rule_id].tripped for each in self._histories if each.knows(rule))

    def _figure(self, name: str, figure: SharedFigure, value: bytes) -> Message:
        known = self._files.get(name)
        if known is None:
            return Message(figure, name, value, "published")
        same = known.data == value and known.origin.who is not None
        return Message(figure, name, None if same else value, "unchanged" if same else "status_changed")

    def _message(self, rule: Rule, value: bytes) -> Message:
        """That of a rule; it is sent again where the one that is there does not say who published it."""
        name = str(_key(rule))
        known = self._by_name.get(name)
        if known is None:
            return Message(rule, name, value, "published")
        if known.rule.to_json() == rule.to_json() and self._files[name].origin.who is not None:
            return Message(rule, name, None, "unchanged")
        return Message(rule, name, value, "status_changed")

    @cached_property
    def _by_name(self) -> dict[str, FileRule]:
        return {str(_key(each.rule)): each for each in self.rules}

    def _check(self, new: Mapping[str, FileContent], shown_as: Mapping[str, str]) -> None:
        """Raise RefusedError where a pipeline would refuse what is ``new``, or something else because of it."""
        before = read_files(self._files, self._known)
        after = read_files({**self._files, **new}, self._known)
        problems: dict[tuple[str, int, str], Problem] = {}
        for history in (*self._histories, as_if_published(self.rules)):
            _, refused_before = judge({**before, **misplaced(before)}, history)
            _, refused = judge({**after, **misplaced(after)}, history)
            for source, error in refused.items():
                if source in new or source not in refused_before:
                    for problem in error.problems:
                        shown = replace(problem, source=shown_as.get(problem.source, problem.source))
                        problems.setdefault((shown.source, shown.line, shown.found), shown)
        if problems:
            raise RefusedError(list(problems.values()))


def _key(rule: Rule) -> RuleKey:
    return RuleKey(rule.rule_id, rule.version)


def _text(each: FileRule, content: FileContent) -> bytes:
    """The message: the file as it is, where the rule is all of it, and contains all of it."""
    files = type(each.rule).files
    if not each.path and not files:
        return content.data
    written = each.document.data
    for step in each.path:
        written = written[step]
    # The bytes of a file that the rule names go with it: who reads the topic has no such file.
    body = each.rule.to_json()
    whole = {**written, **{name: body[name] for name in files.values() if name in body}}
    return yaml.safe_dump(whole, sort_keys=False, allow_unicode=True).encode()


def as_if_published(rules: Sequence[FileRule]) -> History:
    """What a pipeline knows that has loaded all of these."""
    events = [
        RuleEvent(
            "published",
            0,
            each.rule.rule_id,
            each.rule.version,
            each.rule.status,
            each.rule.effective_from,
            each.source,
            each.line,
            each.rule.body_digest(),
            body=each.rule.to_json(),
        )
        for each in rules
    ]
    return History(events)
