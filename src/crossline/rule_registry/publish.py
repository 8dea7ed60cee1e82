"""Changes to a folder of rule files, made by a command: checked against what is live first, then written whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Literal

import yaml

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.texts.problems import Problem, RefusedError, nearest, one_of
from crossline.rule_registry.atomic_files import held, replace_file
from crossline.rule_registry.content import FileContent, content_of, is_folder
from crossline.rule_registry.file_check import judge, judge_files
from crossline.rule_registry.history import History
from crossline.rule_registry.rule_files import (
    CASES,
    NOTHING_KNOWN,
    SUFFIXES,
    FileRule,
    Known,
    folder_of_rules,
    read_files,
)
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.ownership import Statement, origins_in, state
from crossline.rule_registry.sources.review import review_digest
from crossline.rule_registry.status_edit import with_share, with_status
from crossline.rules.base import Rule, Status, legal_move, legal_moves

Change = Literal["published", "status_changed", "unchanged"]


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one rule: ``change`` is what the pipeline will log when it loads ``file``.

    ``taken_back``: the status that stood there, and that no pipeline has loaded.
    """

    rule: Rule
    file: Path
    change: Change
    taken_back: Status | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """The rules of a file that was published, and those that stood in the file it replaced and now stand in none."""

    rules: tuple[Written, ...]
    left_out: tuple[str, ...]


def check_file_name(name: str) -> None:
    """Raise UsageError where no rule file in a folder is called so."""
    if name.endswith(CASES):
        raise UsageError(f"found file {name}; expected the name of a rule file: cases are not published")
    if not name.endswith(SUFFIXES) or name.startswith("."):
        raise UsageError(f"found file {name}; expected a name that ends in {', '.join(SUFFIXES)}")


class RuleFolder:
    """A folder of rule files with the logs of the pipelines that run on it; ``histories`` has one for each.

    Commands that change it wait for each other, and replace only what they read. ``in_name_of``: the principal for whom
    a server writes, which it states beside each file; None: who owns a file is who wrote it.
    """

    def __init__(
        self,
        path: Path,
        histories: Collection[History] = (),
        known: Known = NOTHING_KNOWN,
        in_name_of: str | None = None,
    ) -> None:
        if not is_folder(path):
            raise UsageError(f"found no folder {path}; expected the folder of the rule files: name it with --rules")
        self.path = path
        self.in_name_of = in_name_of
        self.histories = tuple(histories)
        for each in self.histories:
            known = known.with_heads(each.heads)
        self._known = replace(known, folder=known.folder or path)

    def files(self) -> Files:
        """The rule files as they stand."""
        return folder_of_rules(self.path).changed() or {}

    def rules(self) -> tuple[list[FileRule], dict[str, RefusedError]]:
        """The rules in the files that can be read, by rule and version, and what is wrong with the others."""
        return judge_files(self.files(), History(), self._known)

    def read_one(self, text: str) -> Rule | None:
        """The one rule of a text, as it would stand there; None where it is wrong, or has several."""
        read = read_files({**self.files(), "proof.yaml": FileContent(text.encode())}, self._known)["proof.yaml"]
        return read[0].rule if not isinstance(read, RefusedError) and len(read) == 1 else None

    def publish(self, file: Path) -> Publication:
        """Put the rules of ``file`` into the folder, under the file's name.

        Raises RefusedError, and leaves the folder as it is, where they are wrong or may not follow what is live;
        RetryableError where another program changes the file in the folder at this moment.
        """
        check_file_name(file.name)
        content = content_of(file)
        if file.resolve().parent == self.path.resolve():
            raise UsageError(f"{file} is in {self.path} already: a running pipeline loads it by itself")
        return self.put(file.name, content, shown_as=str(file))

    def put(
        self, name: str, content: FileContent, shown_as: str, check: Callable[[Files], None] | None = None
    ) -> Publication:
        """As ``publish``, of what was read: it is called ``name`` in the folder, and ``shown_as`` in reports.

        ``check`` of the files that stand there raises where it may not follow them.
        """
        check_file_name(name)
        with held(self.path):
            before = self.files()
            if check is not None:
                check(before)
            written = self._checked(before, name, content, shown_as=shown_as)
            self._check_ends(before, written)
            self._write(name, content.data, before)
        there = Known(folder=self.path, figures=self._known.figures)
        gone = _rule_ids(before, there) - _rule_ids({**before, name: content}, there)
        return Publication(tuple(written), tuple(sorted(gone)))

    def _check_ends(self, before: Files, written: Sequence[Written]) -> None:
        """Raise PermanentError if a live version, which its file retires, would stay live."""
        standing, _ = judge_files(before, History(), self._known)
        ends = {_name(each): each for each in standing if each.rule.status == "retired"}
        for each in written:
            ended = ends.get((each.rule.rule_id, each.rule.version))
            if ended is not None and any(history.knows(ended.rule) for history in self.histories):
                self._check_standing(ended.rule, self._status(ended.rule), each.rule.status, self.path / ended.source)

    def set_status(self, rule_id: str, status: Status, version: int | None = None) -> Written:
        """Set the status in the rule's file (of ``version``; the highest there is), and change nothing else in it.

        A rule that is live while its file is gone gets a file again. Raises PermanentError for an illegal move, or
        where there is no such rule, RefusedError where its file cannot be loaded, RetryableError as ``publish``.
        """
        with held(self.path):
            return self._set_status(self.files(), rule_id, status, version)

    def set_share(self, rule_id: str, share: str, version: int | None = None) -> Written:
        """Set the share of keys in the rule's file (of ``version``; the highest there is), and change nothing else.

        Raises PermanentError where no file has such a rule, RefusedError where it may have no such share.
        """
        with held(self.path):
            before = self.files()
            standing, _ = judge_files(before, History(), self._known)
            mine = [each for each in standing if each.rule.rule_id == rule_id and version in {None, each.rule.version}]
            if not mine:
                raise no_rule(rule_id, {each.rule.rule_id for each in standing}, version)
            each = mine[-1]
            if each.rule.share == share:
                return Written(each.rule, self.path / each.source, "unchanged")
            content = FileContent(with_share(each.document.text, each.source, each.path, share).encode())
            written = self._checked(before, each.source, content, shown_as=each.source)
            self._write(each.source, content.data, before)
        return next(done for done in written if (done.rule.rule_id, done.rule.version) == _name(each))

    def _set_status(self, before: Files, rule_id: str, status: Status, version: int | None) -> Written:
        standing, refused = judge_files(before, History(), self._known)
        mine = [each for each in standing if each.rule.rule_id == rule_id and version in {None, each.rule.version}]
        if mine:
            each = mine[-1]
            now = self._status(each.rule)
            if status == now and self._tripped(each.rule):
                raise again(each.rule)
            if now == each.rule.status == status:
                return Written(each.rule, self.path / each.source, "unchanged")
            self._check_standing(each.rule, now, status, self.path / each.source)
            check_move(rule_id, now, status)
            name, text = each.source, with_status(each.document.text, each.source, each.path, status)
        else:
            rule = self._logged(rule_id, version, standing, refused)
            if status == rule.status and self._tripped(rule):
                raise again(rule)
            check_move(rule_id, rule.status, status)
            name = self._new_name(rule)
            text = yaml.safe_dump({**rule.to_json(), "status": status}, sort_keys=False, allow_unicode=True)
        content = FileContent(text.encode())
        written = self._checked(before, name, content, shown_as=name)
        self._write(name, content.data, before)
        done = next(each for each in written if each.rule.rule_id == rule_id and each.rule.status == status)
        undone = mine[-1].rule.status if mine and done.change == "unchanged" else None
        return replace(done, taken_back=undone)

    def _write(self, name: str, data: bytes, before: Files) -> None:
        """Replace the file; in another name a server writes its statement first, so the file never lacks it."""
        if self.in_name_of is not None:
            content = FileContent(data)
            author = self._author(before, name, content)
            state(self.path, Statement(name, content.digest, self.in_name_of, author), before.get(name))
        replace_file(self.path / name, data, before.get(name))

    def _author(self, before: Files, name: str, content: FileContent) -> str | None:
        """Whose versions these were, where they say the same under another status, or stood there already."""
        read = read_files({**before, name: content}, self._known)[name]
        standing, _ = judge_files(before, History(), self._known)
        mine = set() if isinstance(read, RefusedError) else {review_digest(each.rule) for each in read}
        origins = origins_in(folder_of_rules(self.path))
        for each in standing:
            origin = origins.get(each.source)
            if origin is not None and review_digest(each.rule) in mine:
                author = origin.author or origin.who
                if author is not None and author != self.in_name_of:
                    return author
        return None

    def _check_standing(self, rule: Rule, now: Status, status: Status, file: Path) -> None:
        """Raise PermanentError where what stands in ``file`` may not become ``status``, loaded or not.

        A pipeline that runs would have loaded it: what may follow does not depend on whether one runs.
        """
        if rule.status != now:
            check_move(rule.rule_id, rule.status, status, f" in {file}, which no pipeline has loaded yet,")

    def _checked(self, before: Files, name: str, content: FileContent, shown_as: str) -> list[Written]:
        """The rules of the new file; raises RefusedError where a pipeline would refuse it, or another because of it."""
        rules = read_files({**before, shown_as: content}, self._known)[shown_as]
        if isinstance(rules, RefusedError):
            raise rules
        read_before = read_files(before, self._known)
        # Under the name that it will have there; where it is new and does not go with another file, the error names it.
        read_after = read_files({**before, name: content}, self._known)
        changed: set[tuple[str, int]] = set()
        known: set[tuple[str, int]] = set()
        for history in self.histories or (History(),):
            _, refused_before = judge(read_before, history)
            _, refused = judge(read_after, history)
            problems = [
                _renamed(problem, name, shown_as)
                for source, error in refused.items()
                if source == name or source not in refused_before
                for problem in error.problems
            ]
            if problems:
                raise RefusedError(problems)
            changed |= {_name(each) for each in rules if history.moves(each.rule)}
            known |= {_name(each) for each in rules if history.knows(each.rule)}
        return [
            Written(each.rule, self.path / name, _change(_name(each) in changed, _name(each) in known))
            for each in rules
        ]

    def _status(self, rule: Rule) -> Status:
        """The status that the version has, which the file may be ahead of."""
        for history in self.histories:
            if history.knows(rule):
                return history.rules[rule.rule_id].versions[rule.version].status
        return rule.status

    def _tripped(self, rule: Rule) -> bool:
        """Whether the breaker made it shadow."""
        return any(
            rule.version in history.rules[rule.rule_id].tripped for history in self.histories if history.knows(rule)
        )

    def _logged(
        self, rule_id: str, version: int | None, standing: list[FileRule], refused: Mapping[str, RefusedError]
    ) -> Rule:
        for history in self.histories:
            rule = history.rules.get(rule_id)
            if rule is not None and rule.source in refused:
                raise refused[rule.source]
            if rule is not None and (version is None or version in rule.versions):
                return rule.versions[version or rule.latest]
        if refused:
            # It may stand in one of these.
            raise RefusedError([problem for error in refused.values() for problem in error.problems])
        names = {each.rule.rule_id for each in standing}.union(*(history.rules for history in self.histories))
        raise no_rule(rule_id, names, version)

    def _new_name(self, rule: Rule) -> str:
        """A name that no file has. An id may begin with a dot, which would hide the file, or like an option."""
        stem = f"rule{rule.rule_id}" if rule.rule_id[0] in ".-" else rule.rule_id
        more = (f"{stem}.v{rule.version}.{number}.yaml" for number in count(2))
        names = chain((f"{stem}.yaml", f"{stem}.v{rule.version}.yaml"), more)
        return next(name for name in names if not os.path.lexists(self.path / name))


def no_rule(rule_id: str, names: Collection[str], version: int | None = None) -> PermanentError:
    """The error for a rule that is not there."""
    if rule_id in names:
        return PermanentError(f"found no version {version} of rule {rule_id}: see crossline rules history {rule_id}")
    hint = nearest(rule_id, names)
    there = one_of(sorted(names)) if names else "there are none yet"
    return PermanentError(f"found no rule {rule_id}; expected {there}" + (f"; {hint}" if hint else ""))


def again(rule: Rule) -> PermanentError:
    """The error for a status that the file has already, while the breaker made the rule shadow."""
    return PermanentError(
        f"rule {rule.rule_id} version {rule.version} is shadow: the breaker found that it floods, though its file has "
        f"{rule.status} (crossline rules history {rule.rule_id}). Set it to shadow first, and once that is loaded to "
        f"{rule.status}; or publish another version of it"
    )


def check_move(rule_id: str, now: Status, status: Status, where: str = "") -> None:
    """Raise PermanentError where a rule may not go from one status to the other."""
    if now != status and not legal_move(now, status):
        legal = one_of(legal_moves(now)) if legal_moves(now) else "no other status; publish a new version"
        raise PermanentError(f"rule {rule_id} is {now}{where} and cannot become {status}; expected {legal}")


def _rule_ids(files: Files, known: Known) -> set[str]:
    accepted, _ = judge_files(files, History(), known)
    return {each.rule.rule_id for each in accepted}


def _renamed(problem: Problem, name: str, shown_as: str) -> Problem:
    if problem.source != name:
        return problem
    return Problem(shown_as, problem.line, problem.path, problem.found, problem.expected, problem.hint, problem.snippet)


def _name(each: FileRule) -> tuple[str, int]:
    return each.rule.rule_id, each.rule.version


def _change(changed: bool, known: bool) -> Change:
    if not changed:
        return "unchanged"
    return "status_changed" if known else "published"
