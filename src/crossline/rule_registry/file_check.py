"""Which rules of files may be loaded: whether they go together, and may follow what was published."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from crossline.basics.streams.inputs import rule_of, several_of
from crossline.basics.texts.problems import Finding, Problem, RefusedError
from crossline.rule_registry.history import History
from crossline.rule_registry.rule_files import NOTHING_KNOWN, FileRule, Known, Read, guarded, read_files
from crossline.rule_registry.sources.folder import Files

_ByName = dict[tuple[str, int], FileRule]


def judge_files(
    files: Files, history: History, known: Known = NOTHING_KNOWN
) -> tuple[list[FileRule], dict[str, RefusedError]]:
    """The rules of the files that are accepted, by rule and version, and the refusals by file."""
    return judge(read_files(files, known), history)


def judge(read: Read, history: History) -> tuple[list[FileRule], dict[str, RefusedError]]:
    """As ``judge_files``, of files that were read: whether they go together, and may follow what was published."""
    accepted: _ByName = {}
    refused: dict[str, RefusedError] = {}
    for source, rules in read.items():
        fresh = rules if isinstance(rules, RefusedError) else guarded(source, partial(_fresh, rules, accepted, history))
        if isinstance(fresh, RefusedError):
            refused[source] = fresh
        else:
            accepted |= {name: each for name, each in fresh.items() if name not in accepted}
    without = _without_hits(accepted.values(), history)
    if without:
        return judge({**read, **without}, history)
    return [accepted[name] for name in sorted(accepted)], refused


def _without_hits(accepted: Collection[FileRule], history: History) -> dict[str, RefusedError]:
    """Of each file with rules that read hits of a rule which is not loaded, whatever the reason: its refusal."""
    known = {*history.rules, *(each.rule.rule_id for each in accepted)}
    problems: dict[str, list[Problem]] = {}
    for each in accepted:
        for source in each.rule.reading.sources:
            several = several_of(source)
            for read in (rule_of(source),) if several is None else several:
                if read is None or read in known or history.knows(each.rule):
                    continue
                path, found = each.rule.place_of_source(source), f"rule {read}, which is not loaded"
                problem = each.problem(Finding(path, found, "a rule that is loaded"))
                problems.setdefault(each.source, []).append(problem)
    return {source: RefusedError(found) for source, found in problems.items()}


def _fresh(rules: list[FileRule], accepted: _ByName, history: History) -> _ByName:
    """The rules of a file by rule and version; raises RefusedError where one may not stand beside ``accepted``."""
    fresh: _ByName = {}
    problems: list[Problem] = []
    for each in rules:
        name = (each.rule.rule_id, each.rule.version)
        finding = _clash(each, fresh.get(name) or accepted.get(name)) or history.finding(each.rule)
        unready = () if history.knows(each.rule) else each.defined.unready
        problems += [each.problem(_placed(each, found)) for found in ([finding] if finding is not None else unready)]
        fresh.setdefault(name, each)
    if problems:
        raise RefusedError(problems)
    return fresh


def _placed(each: FileRule, finding: Finding) -> Finding:
    """``finding``; where it is of a shared figure, with the place of that."""
    name = finding.path[1] if finding.path[:1] == ("figures",) and len(finding.path) > 1 else None
    where = each.defined.where.get(str(name))
    if where is None or (finding.hint and where in finding.hint):
        return finding
    return replace(finding, hint=f"{finding.hint}; the figure stands at {where}" if finding.hint else where)


def _clash(each: FileRule, other: FileRule | None) -> Finding | None:
    if other is None or other.rule.to_json() == each.rule.to_json():
        return None
    found = f"version {each.rule.version} of {each.rule.rule_id} again"
    return Finding(("version",), found, f"one body and status for it; {other.source}:{other.line} has another")
