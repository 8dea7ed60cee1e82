"""The builds that check every load and store: the same answers, and a fault is reported with the field's name."""

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
DEEP = os.environ.get("CROSSLINE_DEEP") == "1"
in_deep_runs = pytest.mark.skipif(not DEEP, reason="its build takes minutes: in deep runs")


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


def those_of(*names: str) -> list[str]:
    return ["-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / name) for name in names)]


@in_deep_runs
@pytest.mark.timeout(900)  # compiled once, like the plain build
def test_the_kernel_stays_within_its_memory() -> None:
    """Property tests, sweeping and growth, with every load and store looked up."""
    run(CHECKED, *those_of("test_random.py", "test_memory.py"))


def test_in_python_it_answers_the_same() -> None:
    slow = ["test_memory_stays_flat_while_keys_come_and_go", "test_a_key_of_few_panes_is_small"]
    relative = HERE.relative_to(HERE.parents[3]) / "test_memory.py"
    run(PYTHON, *those_of("test_memory.py"), *(part for name in slow for part in ("--deselect", f"{relative}::{name}")))


@pytest.mark.parametrize("build", [PYTHON, pytest.param(CHECKED, marks=in_deep_runs)], ids=["python", "checked"])
@pytest.mark.timeout(900)
def test_a_fault_is_reported_with_the_field(build: dict[str, str]) -> None:
    found = run(build, "-m", "tests.unit.state.panes.faults")
    assert found.strip() == "a load of 8 bytes at OWN_HASH, 0 bytes into row 7 of SLOTS, which has 1"
