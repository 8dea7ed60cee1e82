"""The refusals of figure files, word for word. To take a change up: see test_golden.py."""

from pathlib import Path

import pytest

from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.basics.texts.yamltext import load_yaml
from crossline.rules.figure_tables import load_figures_document

FOLDER = Path(__file__).parents[2] / "golden" / "figures"
STREAMS = load_streams((FOLDER / "stream.yaml").read_text(), "stream.yaml")


@pytest.mark.parametrize("name", ["table", "shared"])
def test_the_report_of(name: str) -> None:
    path = FOLDER / f"{name}.yaml"
    with pytest.raises(RefusedError) as caught:
        load_figures_document(load_yaml(path.read_text(), f"figures/{path.name}"), STREAMS, [])
    report = str(caught.value) + "\n"
    expected = path.with_suffix(".txt")
    if not expected.exists():
        expected.write_text(report)
        pytest.fail(f"wrote {expected}; read it, and run again")
    assert report == expected.read_text()
