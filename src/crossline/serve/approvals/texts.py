"""The text of a rule version as people edit it, the version behind it, and what both say in English."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from crossline.analysis.english import describe_rule
from crossline.basics.errors import CrosslineError
from crossline.plan.compose import sources_of
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.file_check import judge_files
from crossline.rule_registry.history import History
from crossline.rule_registry.sources.folders import known_of
from crossline.rules.base import Rule
from crossline.rules.ruleset import RuleSet
from crossline.serve.http.reads.rulebook import rulebook
from crossline.settings.config import PipelineConfig, rule_defaults
from crossline.settings.sources import RulesTopic

NEW = """\
rule_id: my_rule
version: 1
rule_type: velocity
status: shadow
source_topic: {stream}
group_by: {field}
aggregation_type: count
aggregation_threshold: 5
window: 10m
severity: medium
action: review
description: "{{count}} records of {{{field}}} in {{window}}"
"""
CONTEXT = 2
_VERSION = re.compile(r"^(?P<lead>[ -]*version:[ ]*)\d+", re.MULTILINE)


def text_of(config: PipelineConfig, row: dict[str, Any]) -> tuple[str, str]:
    """The text of a version, and what its file is called.

    Of a file that has it alone, that file's, comments too; else its body as YAML, for a file of its own.
    """
    source = str(row["source"]).rpartition(":")[0]
    if not isinstance(config.rules, RulesTopic) and source:
        path = Path(config.rules.path) / source
        text = _alone(path, row["rule_id"], row["version"])
        if text is not None:
            return text, Path(source).name
    return yaml.safe_dump(row["body"], sort_keys=False, allow_unicode=True, width=100), f"{row['rule_id']}.yaml"


def _alone(path: Path, rule_id: str, version: int) -> str | None:
    """The text of a file in which that version is the only rule; None if it is not."""
    try:
        text = path.read_text()
        data = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    rules = data if isinstance(data, list) else [data]
    if len(rules) != 1 or not isinstance(rules[0], dict):
        return None
    return text if (rules[0].get("rule_id"), rules[0].get("version")) == (rule_id, version) else None


def with_version(text: str, version: int) -> str:
    r"""``text`` as that version.

    >>> with_version("rule_id: a\nversion: 1  # first\n", 2)
    'rule_id: a\nversion: 2  # first\n'
    """
    return _VERSION.sub(rf"\g<lead>{version}", text, count=1)


def new_text(config: PipelineConfig) -> str:
    """What a new rule begins with."""
    stream, spec = next(iter(config.streams.items()))
    fields = [each for each in spec.columns if each.endswith("_id") and each != spec.id]
    return NEW.format(stream=stream, field=(fields or list(spec.columns))[0])


def the_rule(config: PipelineConfig, text: str) -> Rule | None:
    """The one rule of a text; None if it is wrong, or has several."""
    accepted, refused = judge_files({"rule.yaml": FileContent(text.encode())}, History(), known_of(config))
    return accepted[0].rule if len(accepted) == 1 and not refused else None


def english(config: PipelineConfig, rule: Rule) -> str:
    """The meaning of a rule, as ``crossline rules explain`` prints it; empty if it cannot be explained."""
    events = rulebook(config).events
    history = History(events)
    others = [
        mine.versions[mine.in_force]
        for name, mine in history.rules.items()
        if mine.in_force is not None and name != rule.rule_id
    ]
    try:
        sources = sources_of(RuleSet.from_rules([*others, rule]), config.streams)
        return describe_rule(rule, rule.program(sources.of_reading(rule.reading), rule_defaults(config)))
    except (CrosslineError, KeyError, ValueError):
        return ""


def diff(before: str, after: str) -> tuple[tuple[str, str], ...]:
    r"""Line by line: sign and text; unchanged lines within two of a change.

    >>> diff("a\nb\n", "a\nc\n")
    ((' ', 'a'), ('-', 'b'), ('+', 'c'))
    """
    return tuple(_signed(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT)))


def _signed(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        if number < 2:
            continue  # the names of the files
        if line.startswith("@@"):
            if number > 2:
                yield " ", "…"
            continue
        yield line[:1], line[1:]


def differing(lines: Sequence[tuple[str, str]]) -> int:
    """How many lines differ: a changed line counts once.

    >>> differing(((" ", "a"), ("-", "b"), ("+", "c"), ("+", "d")))
    2
    """
    return max(sum(1 for sign, _ in lines if sign == "+"), sum(1 for sign, _ in lines if sign == "-"))


def changed_lines(before: str, after: str) -> tuple[int, ...]:
    r"""The lines of ``after``, from 1, that are not as they were.

    >>> changed_lines("a\nb\nc\n", "a\nx\nc\nd\n")
    (2, 4)
    """
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    spans = (opcode[3:] for opcode in matcher.get_opcodes() if opcode[0] != "equal")
    return tuple(line + 1 for first, end in spans for line in range(first, end))
