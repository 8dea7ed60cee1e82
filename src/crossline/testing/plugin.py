"""The pytest plug-in with the fixture ``rule_tester``. The engine is loaded only when a test requests it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from crossline.testing.tester import RuleTester


@pytest.fixture
def rule_tester() -> type[RuleTester]:
    """The class of testers of rules.

    Example:
        >>> tester = rule_tester("rules/", "stream.yaml")
        >>> tester.feed(records)
        >>> tester.assert_hits(["p3"], rule="many_merchants")
    """
    from crossline.testing.tester import RuleTester  # noqa: PLC0415 - other tests need not load the engine

    return RuleTester
