"""What the pages say is done here: their commands and programs run, their YAML loads, their links lead somewhere."""

from __future__ import annotations

import gc
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tools.docs.links import anchors, targets

from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.yamltext import load_yaml
from crossline.rules.figure_tables import load_figures_document
from crossline.rules.policy.policy import load_policy
from crossline.rules.rule_reader import load_rules_text
from crossline.settings.config import EngineSettings, load_pipeline
from crossline.settings.process.lake import LakeSettings
from crossline.settings.process.serve import ServeSettings
from crossline.settings.process.slo import SloSettings
from crossline.settings.tables import KINDS

from .pages import PAGES, ROOT, Block, all_blocks, blocks
from .session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REASONS = {
    "make": "its targets are looked up here, and what they do is tested where it is written",
    "needs a Kafka broker": "the reader's own",
    "needs a cluster": "the reader's own",
    "needs a PostgreSQL": "the reader's own; the commands are tested on one of ours",
    "minutes, and 2 GB of disk": "the same command runs over a few payments in the tests of the command",
    "minutes, and a test does the same with ten minutes of payments": "tests/unit/lake/training/test_example.py",
    "needs an engine of containers": "the files that are named are held against the code in test_deploy.py",
    "needs an API that serves": "asked in tests/unit/client, and by tests/e2e/test_checkout.py as the page does",
    "installs a package": "tests/e2e/test_wheel.py installs it, with its extras and without",
    "minutes of compiling": "the tests that are named run in the suite, and the measurement among the others",
}
LANGUAGES = {"", "sh", "python", "yaml", "json", "sql", "http", "toml"}
RUN = ("sh", "python")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def runs(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in RUN and block.not_run is None]


# The session is asked for by the first block that needs one; no block of these pages does.
WITHOUT_SPARK = ("CONTRIBUTING.md", "README.md", "change-a-rule.md", "library.md")
SHARED = pytest.mark.xdist_group("shared")
RUN_PAGES = [
    pytest.param(page, id=name_of(page), marks=[] if page.name in WITHOUT_SPARK else SHARED)
    for page in PAGES
    if runs(page)
]


# PySpark leaves the sockets to its workers open for the collector to find.
@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*<socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.spark
@pytest.mark.parametrize("page", RUN_PAGES)
def test_what_it_reports_to_do_works(
    page: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def spark() -> SparkSession:
        session: SparkSession = request.getfixturevalue("spark")
        return session

    folder, environment = tmp_path / "reader", {}
    if page.name == "CONTRIBUTING.md":
        environment = copy_of_the_repository(folder)
    else:
        folder.mkdir()
    session = Session(folder, None if page.name in WITHOUT_SPARK else spark, monkeypatch, environment)
    try:
        for block in runs(page):
            session.run(block)
        SERVED.get(page.name, lambda _: None)(session)
    finally:
        ended = session.stop()
    assert not ended
    CHECKS.get(page.name, lambda *_: None)(session.folder, capsys.readouterr().out)
    gc.collect()


def check_readme(_: Path, text: str) -> None:
    """Three merchants in a minute once, on the sample and from Python."""
    assert re.search(r"many_merchants\W+1\W+1\W", text)
    assert len(re.findall(r"^many_merchants p\d+ 3 different ", text, re.MULTILINE)) == 1


def check_change(_: Path, text: str) -> None:
    """One payment is above 1,000 euros, two are above 400."""
    assert re.search(r"large_payment\W+1\W+\+1\W+-0\W", text)


def check_spark(project: Path, _: str) -> None:
    """The streaming frame gives what `init` says of its payments."""
    lines = [line for path in project.glob("out/api-alerts/part-*") for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["rule_id"] for line in lines) == ["card_testing", "large_payment", "spending"]


def check_tutorial(project: Path, text: str) -> None:
    """What the page shows is what is printed; what was judged stays version 1's, and version 2 judges what comes."""
    shown = [block.text for block in blocks(ROOT / "docs" / "tutorial.md") if not block.language]
    printed = {" ".join(line.split()) for line in text.splitlines()}
    for line in "".join(shown).splitlines():
        assert " ".join(line.split()) in printed or "looks at each login" in line or "the last 5 min" in line, line
    with closing(sqlite3.connect(project / "out" / "crossline.db")) as store:
        query = "SELECT record_id, rule_version FROM alerts ORDER BY event_time"
        assert store.execute(query).fetchall() == [("l05", 1), ("l17", 2)]


def serve_tutorial(session: Session) -> None:
    """The case of the file that came while the console was there."""
    session.seen_at("/queue", "3 failed log-ins of emil within 10 min")


CHECKS: dict[str, Callable[[Path, str], None]] = {
    "README.md": check_readme,
    "change-a-rule.md": check_change,
    "spark.md": check_spark,
    "tutorial.md": check_tutorial,
}
SERVED: dict[str, Callable[[Session], None]] = {"tutorial.md": serve_tutorial}


def copy_of_the_repository(folder: Path) -> dict[str, str]:
    """Where a contributor may change anything; the variables that make Python take crossline from there."""
    for name in ("src", "tests", "tools", "docs"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True)
    shutil.copy2(ROOT / "pyproject.toml", folder)
    return {"PYTHONPATH": str(folder / "src")}


def test_the_command_is_there() -> None:
    command = Path(sys.executable).with_name("crossline")
    found = subprocess.run([command, "--help"], check=True, capture_output=True, text=True).stdout
    assert "backtest" in found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_not_run_has_a_good_reason(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block}: {block.language}"
        assert block.not_run is None or block.not_run in REASONS, f"{block}: {block.not_run}"


def test_what_make_is_reported_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`?\bmake ([a-z]+)`", page.read_text())}
    reported = {name for block in all_blocks("sh") for name in re.findall(r"^make (\w+)", block.text, re.MULTILINE)}
    assert {"demo", "test"} <= reported
    assert named | reported <= targets


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=str)
def test_its_yaml_loads(block: Block) -> None:
    data = load_yaml(block.text, str(block)).data
    if "sources" in data:
        streams = "schema_version: 1\nstreams:\n" + "".join(starmap(stream_text, data["sources"].items()))
        assert load_pipeline(block.text, str(block), lambda _: streams).name
    elif "streams" in data:
        assert load_streams(block.text, str(block))
    elif "decide" in data or "bands" in data or "fallback" in data:
        assert load_policy(block.text, str(block))
    elif "engine" in data:
        assert EngineSettings.model_validate(data["engine"]).spark
    elif "kind" in data:
        assert load_figures_document(load_yaml(block.text, str(block)))
    elif "slo" in data:
        assert SloSettings.model_validate(data["slo"]).lag
    elif "lake" in data:
        assert LakeSettings.model_validate(data["lake"]) != LakeSettings()
    elif "serve" in data:
        assert ServeSettings.model_validate(data["serve"]).place
    elif "enrich" in data:
        assert [KINDS[each["kind"]].model_validate(each) for each in data["enrich"].values()]
    else:
        assert load_rules_text(block.text, str(block))


def stream_text(name: str, source: Mapping[str, Any]) -> str:
    form = "avro" if "registry" in source else "json"
    return f"  {name}: {{format: {form}, id: id, event_time: {{field: at}}, fields: {{id: string, at: integer}}}}\n"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_its_links_lead_somewhere(page: Path) -> None:
    for target in targets(page.read_text()):
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert "://" in target or there.exists(), f"{page.name}: {target}"
        assert not anchor or "://" in target or anchor in anchors(there.read_text()), f"{page.name}: {target}"


def test_a_marker_belongs_to_the_block_after_it() -> None:
    for page in PAGES:
        marked = sum(block.not_run is not None for block in blocks(page))
        assert page.read_text().count("<!-- not run:") == marked, page.name
