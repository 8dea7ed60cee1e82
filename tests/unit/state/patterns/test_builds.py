"""The builds that look up every load and store give the same answers."""

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


def run(build: dict[str, str], *names: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / name) for name in names)],
        env=os.environ | build,
        cwd=HERE.parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.skipif(os.environ.get("CROSSLINE_DEEP") != "1", reason="its build takes two minutes: in deep runs")
@pytest.mark.timeout(900)  # compiled once, like the plain build
def test_the_kernel_stays_within_its_memory() -> None:
    """Property tests, growth and compaction, with every load and store looked up."""
    run(CHECKED, "test_random.py", "test_volume.py", "test_worked.py", "test_far_absences.py")


def test_in_python_it_answers_the_same() -> None:
    run(PYTHON, "test_in_order.py", "test_far_absences.py")
