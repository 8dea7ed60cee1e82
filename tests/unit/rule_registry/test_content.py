"""Every file that a person names: what cannot be read is an error with its line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossline.api import declarations as api
from crossline.basics.errors import CrosslineError, UsageError
from crossline.basics.texts.problems import RefusedError
from crossline.rule_registry.content import read_pipeline, read_text
from crossline.rule_registry.rule_files import read_rules
from crossline.runtime.pipeline.assemble import read_config

from .harness import STREAMS, rule

READERS: dict[str, Callable[[Path], Any]] = {
    "load_rules": api.load_rules,
    "load_streams": api.load_streams,
    "read_rules": read_rules,
    "read_config": lambda path: read_config(str(path)),
    "read_pipeline": read_pipeline,
    "read_text": read_text,
}


@pytest.mark.parametrize("reader", READERS)
def test_text_in_another_encoding(tmp_path: Path, reader: str) -> None:
    (tmp_path / "f.yaml").write_bytes(b"# one\n# two \xff\n")
    with pytest.raises(RefusedError, match=r"f\.yaml:2\n  found byte 0xff; expected text in UTF-8"):
        READERS[reader](tmp_path / "f.yaml")


@pytest.mark.parametrize("reader", [name for name in READERS if name not in {"load_rules", "read_rules"}])
def test_a_folder_in_place_of_a_file(tmp_path: Path, reader: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be read: Is a directory"):
        READERS[reader](tmp_path)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["gone.yaml", "loop.yaml", "a\0b.yaml", "x" * 300, "\udcff.yaml"])
def test_what_is_not_there(tmp_path: Path, reader: str, name: str) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(CrosslineError, match="cannot be read: ") as caught:
        READERS[reader](tmp_path / name)
    assert str(caught.value).isprintable()
    str(caught.value).encode()


def test_rules_of_a_folder_report_all_errors(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule("a"), encoding="utf-8")
    (tmp_path / "b.yaml").write_bytes(b"\xff")
    (tmp_path / "c.yaml").mkdir()
    (tmp_path / "d.yaml").write_text(rule("d").replace("threshold", "thresold"), encoding="utf-8")
    with pytest.raises(RefusedError) as caught:
        api.load_rules(tmp_path)
    assert [Path(problem.source).name for problem in caught.value.problems] == ["b.yaml", "c.yaml", "d.yaml"]


def test_rules_of_a_folder_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(STREAMS, encoding="utf-8")
    folder = tmp_path / "rules"
    folder.mkdir()
    with pytest.raises(UsageError, match=r"found no rule files in .*/rules"):
        api.load_rules(folder)
    (folder / "b.yaml").write_text(rule("b"), encoding="utf-8")
    (folder / "a.yml").write_text(rule("a"), encoding="utf-8")
    (folder / ".hidden.yaml").write_text("- [", encoding="utf-8")
    streams = api.load_streams(tmp_path / "s.yaml")
    assert [each.rule.rule_id for each in api.load_rules(folder, streams).versions] == ["a", "b"]
    (folder / "a.yml").write_text("# nothing\n", encoding="utf-8")
    (folder / "b.yaml").unlink()
    with pytest.raises(UsageError, match="found no rules; expected a rule file or a folder of them"):
        api.load_rules(folder)


def test_the_stream_file_of_a_pipeline(tmp_path: Path) -> None:
    text = "schema_version: 1\nname: p\nstreams: {}\nsources: {{s: {{kind: files, path: in}}}}\n"
    text += "rules: {{kind: directory, path: r}}\nsinks: [{{kind: console}}]\n"
    pipeline = tmp_path / "p.yaml"
    for named, found in (
        ("gone.yaml", r"p\.yaml:3: streams\n.*\n.*No such file"),
        ("folder", r"p\.yaml:3: streams\n.*\n.*Is a directory"),
        ('"a\\0b"', r"p\.yaml:3: streams\n.*\n.*embedded null byte"),
        ("latin.yaml", r"latin\.yaml:1\n  found byte 0xff"),
    ):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "latin.yaml").write_bytes(b"\xff")
        pipeline.write_text(text.format(named), encoding="utf-8")
        with pytest.raises(RefusedError, match=found):
            read_pipeline(pipeline)
