"""An object answers for its own kind: no code asks for the class of a predicate, a threshold, a plan or a store.

A predicate says ``kind``, gives itself as ``.formula``, ``.sequence`` and so on, and answers what is asked of all of
them; so do lines and plans. A new class is then complete where it is declared, without a search for
``isinstance``.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from crossline.evaluate.kernels import KERNELS
from crossline.programs.predicate import Predicate
from crossline.state.retraction.kernel import Reevaluation

PACKAGE = Path(__file__).parents[2] / "src" / "crossline"
DECLARED = ("programs/program.py", "programs/predicate.py", "plan/spaces.py", "plan/pattern_spaces.py")
# What is left, by file: how often it asks, and why.
LEFT = {"runtime/stages/decision_stage.py": 1}  # an error is raised where a store is not the one that was put there
RULES_LEFT = {  # of rules that no author wrote, and of those whose type has a threshold
    "analysis/english.py": 1,
    "analysis/lint.py": 1,
    "runtime/changes/backfill.py": 1,
    "runtime/stages/alert_holds.py": 2,
    "backtest/sample_view.py": 2,
    "rule_registry/outcomes/warnings.py": 1,
}


def classes_in(name: str) -> set[str]:
    return {node.name for node in ast.walk(ast.parse((PACKAGE / name).read_text())) if isinstance(node, ast.ClassDef)}


def kinds() -> set[str]:
    """The classes whose kind is asked of the object."""
    stores = {place.partition(":")[2] for place in KERNELS.values()} | {Reevaluation.__name__, "DecidedPlan"}
    return set().union(*map(classes_in, DECLARED)) | {Predicate.__name__} | stores


def rules() -> set[str]:
    files = sorted((PACKAGE / "rules").rglob("*.py"))
    found = set().union(*(classes_in(str(path.relative_to(PACKAGE))) for path in files))
    return {name for name in found if name.endswith("Rule")}


def asked(tree: ast.Module, names: set[str]) -> int:
    """How often it is asked whether something is of one of these classes."""
    return sum(bool(names & _named(node)) for node in ast.walk(tree))


def _named(node: ast.AST) -> set[str]:
    """The classes that a question names: of ``isinstance``, of a pattern, of a comparison with what ``type`` gives."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, of]):
            return _names(of)
        case ast.MatchClass(cls=of):
            return _names(of)
        case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=others):
            return set().union(*map(_names, others))
        case ast.Dict(keys=keys):
            return set().union(*(_names(key) for key in keys if isinstance(key, ast.Name)))
    return set()


def _names(of: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(of) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(of) if isinstance(node, ast.Attribute)
    }


def counted(names: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if any(name in text for name in names):  # to parse all files takes ten seconds
            found[str(path.relative_to(PACKAGE))] = asked(ast.parse(text), names)
    return {name: count for name, count in found.items() if count and name not in DECLARED}


def test_predicates_lines_plans_and_stores_are_asked_what_they_are() -> None:
    assert counted(kinds()) == LEFT


def test_no_more_rules_are_reported_apart_by_their_class() -> None:
    assert counted(rules()) == RULES_LEFT


def test_the_classes_are_those_that_there_are() -> None:
    assert {
        "FormulaPredicate",
        "SequencePredicate",
        "ComparisonPlan",
        "SequencePlan",
        "AbsenceSpacePlan",
        "PaneState",
    } <= kinds()
    assert "PaneState" in kinds()
    assert {"HoldRule", "PredicateRule", "TableRule"} <= rules()


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(x, ComparisonPlan)",
        "isinstance(x, ComparisonPlan | SequencePlan)",
        "isinstance(x, (int, spaces.ComparisonPlan))",
        "match x:\n    case ComparisonPlan(version=1):\n        pass",
        "type(x) is ComparisonPlan",
        "{ComparisonPlan: 1}[type(x)]",
    ],
)
def test_each_way_to_ask_is_seen(text: str) -> None:
    assert asked(ast.parse(text), {"ComparisonPlan"}) == 1
    assert asked(ast.parse(text), {"Absence"}) == 0
