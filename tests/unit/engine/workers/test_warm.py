"""What is compiled ahead: after it nothing is, whatever the rules are and however records come."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_nothing_is_compiled_after_what_is_compiled_ahead() -> None:
    """Also not where it stands in the cache: that this process loads it shows that a first run would have waited."""
    program = Path(__file__).with_name("compiled_later.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["ahead"] > 10
    assert {tuple(each) for each in found["told"]} == {("again", "keys", "long", "of_hits", "order", "vain")}
    assert found["later"] == []
