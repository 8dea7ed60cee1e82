"""One rule type is one file, and has one test file of the same name."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TYPES = ROOT / "src" / "crossline" / "rules" / "types"
TESTS = ROOT / "tests" / "unit" / "rules"


def test_each_rule_type_has_its_test_file() -> None:
    types = {path.stem for path in TYPES.glob("*.py")} - {"__init__"}
    tests = {path.stem.removeprefix("test_") for path in TESTS.rglob("test_*.py")}
    assert types
    assert types - tests == set()
