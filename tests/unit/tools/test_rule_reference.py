import re
from pathlib import Path

import pytest
import yaml
from tools.docs.rule_reference import reference

from crossline.basics.conditions.tree import OPERATORS, parse_conditions
from crossline.basics.texts.yamltext import load_yaml
from crossline.rules.base import NOT_YET, Rule
from crossline.rules.figure import FigureFields
from crossline.rules.figure_tables import FigureTable, SharedFigure, load_figures_document
from crossline.rules.registry import rule_types
from crossline.rules.rule_reader import load_rules_text

PAGE = Path(__file__).parents[3] / "docs" / "rule-reference.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == reference(), "run: python -m tools.docs.rule_reference > docs/rule-reference.md"


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", reference(), re.DOTALL))
def test_its_examples_load(block: str) -> None:
    data = yaml.safe_load(block)
    if "rule_id" in data:
        assert load_rules_text(block, "docs")[0].rule.rule_id == data["rule_id"]
    elif "kind" in data:
        assert load_figures_document(load_yaml(block, "docs"))[0].name == data["figure_id"]
    else:
        assert parse_conditions(data["conditions"])[1] == []


def test_nothing_is_left_out() -> None:
    page = reference()
    models = (Rule, FigureFields, SharedFigure, FigureTable, *rule_types().values())
    fields = {info.alias or name: info for cls in models for name, info in cls.model_fields.items()}
    names = {name for name, info in fields.items() if info.description != NOT_YET} | {"count", "since", "age", "streak"}
    assert [name for name in names if f"| `{name}` |" not in page and name not in {"rule_type", "shared"}] == []
    assert [operator for operator in OPERATORS if f"`{operator}`" not in page] == []
    assert [name for name in rule_types() if f"## `{name}`" not in page] == []
    assert "None |" not in page
