"""Rule types whose own fields write the formula: who reads the rule never sees it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Finding
from crossline.rules.predicate_rule import PredicateRule


class GeneratedFormulaRule(PredicateRule):
    """A rule whose figures are made of its own fields: no author wrote them, and no message shows them."""

    def beside(self, spec: StreamSpec) -> Collection[str]:  # noqa: ARG002 - other fields are in no formula of the type
        """None but where a type reports it: a stream may have fields that are called as its figures."""
        return ()

    def placed(self, figure: str, found: Finding) -> Finding | None:
        """At the field that the figure is of; its conditions are the rule's, or ask for that field."""
        if found.path[0] == "conditions":
            return None
        return found if found.path[0] == "group_by" else replace(found, path=self.path_of(figure))
