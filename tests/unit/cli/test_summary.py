"""What a run says at its end, on screens of any width."""

from __future__ import annotations

import pytest

from crossline.cli.init import template_files
from crossline.cli.summary import summary_text
from crossline.core.config import load_pipeline
from crossline.engine.totals import Totals


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_the_summary_fits_the_screen(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    files = {name: content.decode() for name, content in template_files()}
    config = load_pipeline(files["pipeline.yaml"], "pipeline.yaml", files.__getitem__)
    totals = Totals(records=24, late=2)
    totals.alerts["a_rule_with_a_name_of_some_length"] = 12_345
    totals.dead["duplicate_id"] = 3
    text = summary_text(config, totals)
    assert max(map(len, text.splitlines())) <= columns
    joined = "".join(text.split())
    for part in ("24records", "12,345a_rule_with_a_name_of_some_length", "3duplicate_id", "kept in the store): 2"):
        assert "".join(part.split()) in joined
    assert "out/crossline.db,out/alerts.jsonl,console" in joined
