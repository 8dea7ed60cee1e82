"""What is compiled ahead: after it nothing is, whatever the rules are and however records come."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from crossline.runtime.workers import warm as module


def test_nothing_is_compiled_after_what_is_compiled_ahead() -> None:
    """Also not where it stands in the cache: that this process loads it shows that a first run would have waited."""
    program = Path(__file__).with_name("compiled_later.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["ahead"] > 10
    assert {tuple(each) for each in found["told"]} == {("again", "keys", "long", "of_hits", "order", "vain")}
    assert found["later"] == []


def test_steps_are_told_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    for name in ("warm_panes", "warm_patterns", "_decode_all", "warm_windows", "_judge_some"):
        monkeypatch.setattr(module, name, partial(said.append, name))
    module.warm(panes=True, patterns=True, formats=True, on_step=lambda *step: said.append(step))
    assert said == [
        *(("windows with a resolution", 0, 5), "warm_panes", ("sequences and absences", 1, 5), "warm_patterns"),
        *(("formats", 2, 5), "_decode_all", ("windows", 3, 5), "warm_windows", ("a batch", 4, 5), "_judge_some"),
    ]
    said.clear()
    module.warm(on_step=lambda *step: said.append(step))
    assert said == [("windows", 0, 2), "warm_windows", ("a batch", 1, 2), "_judge_some"]


def test_two_processes_compile_what_one_would_and_neither_what_the_other_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    did: list[str] = []
    steps = ("warm_panes", "warm_patterns", "_decode_all", "warm_windows", "_judge_some")
    for name in steps:
        monkeypatch.setattr(module, name, partial(did.append, name))
    for half in module.HALVES:
        module.main([half])
    assert sorted(did) == sorted(steps)
    did.clear()
    module.main([])
    assert sorted(did) == sorted(steps)
    assert capsys.readouterr().err.count("compiling kernels") == 3
