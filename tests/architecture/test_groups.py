"""Tests that share a session or a broker run in one process. Otherwise each process would silently start its own."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("heeded")
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="in one process there is nothing to deal out")
def test_groups_of_tests_share_a_process(request: pytest.FixtureRequest) -> None:
    """What deals tests out sees only their names: the group stands behind an @ where it is known."""
    assert request.node.nodeid.endswith("@heeded")
