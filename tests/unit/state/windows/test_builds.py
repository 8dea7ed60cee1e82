"""The builds that check every load and store: the same answers, and a fault is reported with the field's name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("builds")  # in one process: what one has compiled the next one finds

ROOT = Path(__file__).parents[4]
HERE = Path(__file__).parent
CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "1"}
PYTHON = {"NUMBA_DISABLE_JIT": "1"}


def run(build: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=os.environ | build, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.timeout(900)  # compiled once, like the plain build
def test_the_kernel_stays_within_its_memory() -> None:
    """Property tests, growth and compaction, with every load and store looked up."""
    tests = [str(HERE / name) for name in ("test_random.py", "test_growth.py", "test_compaction.py", "test_clocks.py")]
    run(CHECKED, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


def test_in_python_it_answers_the_same() -> None:
    tests = [str(HERE / "test_worked.py"), str(HERE / "test_compaction.py")]
    # Ten thousand records take half a minute so.
    slow = HERE / "test_worked.py::test_evicted_keys_and_records_are_gone_and_memory_is_given_back"
    tests += ["--deselect", str(slow.relative_to(ROOT))]
    run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


@pytest.mark.parametrize("build", [PYTHON, CHECKED], ids=["python", "checked"])
@pytest.mark.timeout(900)
def test_a_fault_is_reported_with_the_field(build: dict[str, str]) -> None:
    found = run(build, "-m", "tests.unit.state.windows.faults")
    assert found.strip() == "a load of 4 bytes at CLOCK, 0 bytes into row 12 of RECORDS, which has 11"
