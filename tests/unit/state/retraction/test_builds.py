"""The builds that check every load and store: the same answers, and a fault is reported with the column's name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("builds")  # in one process: what one has compiled the next one finds

HERE = Path(__file__).parent
CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "1"}
PYTHON = {"NUMBA_DISABLE_JIT": "1"}


def run(build: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | build,
        cwd=HERE.parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.timeout(900)  # compiled once, like the plain build
def test_the_table_has_the_rows_that_are_asked_for() -> None:
    run(CHECKED, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_random.py"))


def test_in_python_it_answers_the_same() -> None:
    run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_worked.py"))


def test_a_fault_is_reported_with_the_column() -> None:
    found = run(PYTHON, "-m", "tests.unit.state.retraction.faults")
    assert found == "a load of 4 bytes at key, 0 bytes into row -1 of the table, which has 4"
