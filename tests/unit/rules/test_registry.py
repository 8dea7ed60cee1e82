import pytest

from crossline.basics.texts.problems import Finding
from crossline.rules.base import Rule
from crossline.rules.registry import find_rule_type, rule_type, rule_types
from crossline.rules.types.velocity import VelocityRule


def test_types_are_found_in_their_folder() -> None:
    assert {"threshold", "velocity"} <= set(rule_types())
    assert find_rule_type("velocity") is VelocityRule


def test_a_clash_is_refused() -> None:
    class Other(Rule):
        pass

    with pytest.raises(ValueError, match=r"velocity is crossline\.rules\.types\.velocity\.VelocityRule already"):
        rule_type("velocity")(Other)
    assert rule_type("velocity")(VelocityRule) is VelocityRule


@pytest.mark.parametrize(("name", "hint"), [("velocty", "did you mean velocity?"), ("x", None), (5, None)])
def test_a_miss_names_the_known_types(name: object, hint: str | None) -> None:
    found = find_rule_type(name)
    assert isinstance(found, Finding)
    assert "threshold, velocity" in found.expected
    assert found.hint == hint
