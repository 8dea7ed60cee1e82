"""The wheel, installed outside of the tree with what it requires and nothing else: rules, library, backtest, run."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from crossline.runtime.machine.cache_folder import cache_dir
from crossline.runtime.machine.java import find_java

from .installed import ROOT, Installed, built_wheel, metadata_of, required

# Each command that needs what an extra brings, and what it says without.
WITHOUT = [
    (("run", "pipeline.yaml", "--drain"), "pyspark", "spark"),
    (("figures", "--pipeline", "pipeline.yaml", "--figures", "f.yaml", "--follow"), "pyspark", "spark"),
    (
        ("rules", "publish", "rules/spending.yaml", "--pipeline", "kafka.yaml", "--to", "kafka"),
        "confluent_kafka",
        "kafka",
    ),
    (("serve", "start", "served.yaml"), "uvloop", "serve"),
]
LIBRARY = """
import json, sys, crossline
rows = [json.loads(line) for line in open("in/2026-01-05.jsonl")]
detector = crossline.Detector("rules", "stream.yaml")
alerts = []
for number in (0, 12):
    alerts += detector.process(rows[number : number + 12]).alerts
    detector.save("state.bin")
    detector = crossline.Detector("rules", "stream.yaml").load("state.bin")
assert [a["alert_id"] for a in alerts] == [a["alert_id"] for a in crossline.detect(rows, "rules", "stream.yaml")]
assert crossline.__file__.startswith(sys.prefix), crossline.__file__
print(json.dumps([crossline.__version__, sorted(alert["rule_id"] for alert in alerts)]))
"""
KINDS = ["card_testing", "large_payment", "spending"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """``pip install WHEEL``."""
    return Installed(tmp_path_factory.mktemp("bare"), wheel)


@pytest.fixture(scope="module")
def project(bare: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``crossline init`` writes there."""
    folder = tmp_path_factory.mktemp("somewhere")
    bare.run("crossline", "init", "shop", cwd=folder)
    return folder / "shop"


def test_it_says_what_it_is_and_leaves_out_what_tests_start(wheel: Path) -> None:
    body = metadata_of(wheel)
    assert body["License-Expression"] == "Apache-2.0"
    with ZipFile(wheel) as file:
        names = file.namelist()
        (licence,) = [name for name in names if name.endswith("/licenses/LICENSE")]
        assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in file.read(licence).decode()
    assert "crossline/py.typed" in names
    assert "crossline/cli/templates/payments/rules/card_testing.cases.yaml" in names
    left_out = ("dev/services/", "tools/", "docs/")
    assert [name for name in names if name.startswith(left_out) or "__pycache__" in name or "tests" in name] == []


def test_with_all_it_requires_what_the_lock_has(wheel: Path) -> None:
    """So nothing that the tests need of the package is required by the developers' group alone."""
    wanted = required(metadata_of(wheel), ["all"])
    assert {"pyspark", "confluent-kafka", "psycopg", "redis", "onnxruntime", "fastapi", "httpx"} <= wanted
    assert required(metadata_of(wheel), []) & {"pyspark", "confluent-kafka", "fastapi", "redis", "pandas"} == set()
    locked = {line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line}
    assert wanted - locked == set()


def test_rules_are_checked_explained_and_tried(bare: Installed, project: Path) -> None:
    given = ("rules", "--stream", "stream.yaml")
    for command in ("check", "test"):
        bare.run("crossline", "rules", command, *given, cwd=project)
    tried = bare.run("crossline", "rules", "test", *given, "--input", "in/*.jsonl", "--json", cwd=project)
    assert sorted(json.loads(line)["rule_id"] for line in tried.splitlines()) == KINDS


def test_a_backtest_runs(bare: Installed, project: Path) -> None:
    found = bare.run(
        *("crossline", "backtest", "--pipeline", "pipeline.yaml", "--input", "in/*.jsonl", "--json"), cwd=project
    )
    assert json.loads(found)["alerts"] == dict.fromkeys(KINDS, 1)


def test_the_library_runs(bare: Installed, project: Path) -> None:
    version, kinds = json.loads(bare.run("python", "-c", LIBRARY, cwd=project))
    assert kinds == KINDS
    assert bare.run("python", "-m", "crossline", "--version", cwd=project) == f"crossline {version}\n"


@pytest.mark.parametrize(("command", "package", "extra"), WITHOUT, ids=lambda value: str(value[0]))
def test_what_is_missing_is_named(
    bare: Installed, project: Path, command: tuple[str, ...], package: str, extra: str
) -> None:
    (project / "f.yaml").write_text("source_topic: payments\nfigures: {n: {count: true, window: 1m}}\n")
    pipeline = (project / "pipeline.yaml").read_text()
    topic = "rules: {kind: kafka, brokers: '127.0.0.1:9', topic: rules, path: rules}"
    (project / "kafka.yaml").write_text(pipeline.replace("rules: {kind: directory, path: rules/}", topic))
    (project / "policy.yaml").write_text("schema_version: 1\nversion: 1\nbands: [{from: 50, decision: block}]\n")
    (project / "served.yaml").write_text(pipeline + "\npolicy: policy.yaml\nserve: {path: out/api}\n")
    found = bare.run("crossline", *command, cwd=project, code=2)
    assert f"{package}, which is not installed: pip install 'crossline[{extra}]'" in found


def test_with_spark_a_pipeline_runs(wheel: Path, project: Path, tmp_path: Path) -> None:
    """Java and what was fetched for Spark are those of this tree."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "jars").symlink_to(cache_dir() / "jars")
    java = {"JAVA_HOME": str(find_java().home), "CROSSLINE_CACHE": str(cache)}
    spark = Installed(tmp_path / "spark", wheel, ["spark"], java)
    body = json.loads(spark.run("crossline", "run", "pipeline.yaml", "--drain", "--json", cwd=project))
    assert body["alerts"] == dict.fromkeys(KINDS, 1)
