"""What a process rewrites for the others is what pytest takes: else each would do it again, and nobody would notice."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from rewriting import collected_files, rewrite_share


def test_pytest_takes_what_was_rewritten(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, broken = tmp_path / "test_good.py", tmp_path / "test_broken.py"
    good.write_text("def test_it():\n    three = 3\n    assert three == 4")
    broken.write_text("def")
    rewrite_share(request.config, [good, broken])
    monkeypatch.setattr(rewrite, "_rewrite_test", None)  # from here on nothing is rewritten
    rewrite_share(request.config, [good])
    hook = next(each for each in sys.meta_path if isinstance(each, rewrite.AssertionRewritingHook))
    spec = importlib.util.spec_from_file_location("test_good", good, loader=hook)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    hook.exec_module(module)
    with pytest.raises(AssertionError, match="assert 3 == 4"):
        module.test_it()


def test_files_are_those_that_are_collected(request: pytest.FixtureRequest) -> None:
    assert {item.path for item in request.session.items} <= set(collected_files(request.config))
