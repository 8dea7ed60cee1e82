"""What is not wrong with a rule, and cannot be meant."""

from __future__ import annotations

from crossline.basics.texts.problems import Finding, Problem
from crossline.rule_registry.rule_files import FileRule
from crossline.rules.predicate_rule import PredicateRule


def warnings_of(item: FileRule) -> list[Problem]:
    """What is not wrong with a rule and cannot be meant, as far as the rule alone shows it (`rules check`)."""
    if not isinstance(item.rule, PredicateRule) or not item.rule.unread_figures():
        return []  # what reasons about rules takes long to load
    from crossline.analysis.lint import unread_figures  # noqa: PLC0415 - as above

    return [item.problem(Finding(each.path, each.what, each.todo)) for each in unread_figures(item.rule)]
