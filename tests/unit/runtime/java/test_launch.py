"""How Java is started: by crossline, or by Spark's own scripts where the environment configures them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.runtime.java import launch, settings
from crossline.runtime.machine.java import Java
from crossline.runtime.machine.spark_home import spark_home

SETTINGS = {
    "spark.driver.extraClassPath": "/jars/a.jar:/jars/b.jar",
    "spark.driver.memory": "3g",
    "spark.driver.extraJavaOptions": "-Da=b '-Djava.io.tmpdir=/with a space'",
}


@pytest.fixture(autouse=True)
def a_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "find_java", lambda: Java(Path("/java"), "17.0.1", "system"))


def test_the_command_is_that_of_sparks_scripts_without_incubator_modules() -> None:
    home = str(spark_home())
    command = launch._command(SETTINGS, {"SPARK_HOME": home})
    (first,) = [path.name for path in (spark_home() / "jars").iterdir() if path.name.startswith("slf4j-api-")]
    path = f"/jars/a.jar:/jars/b.jar:{home}/conf:{home}/jars/{first}:{home}/jars/*"
    assert command[:3] == ["/java/bin/java", "-cp", path]
    assert command[3:6] == ["-Xmx3g", "-Da=b", "-Djava.io.tmpdir=/with a space"]
    at = command.index("org.apache.spark.deploy.SparkSubmit")
    assert command[at + 1 : at + 3] == ["--conf", "spark.driver.extraClassPath=/jars/a.jar:/jars/b.jar"]
    assert command[-1] == "pyspark-shell"
    assert "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" in command
    assert not any("incubator" in part for part in command)


@pytest.mark.parametrize(
    "given",
    [
        {"SPARK_HOME": "/opt/spark"},
        {"PYSPARK_SUBMIT_ARGS": "--packages a:b:1 pyspark-shell"},
        {"SPARK_CONF_DIR": "/etc/spark"},
        {"SPARK_SUBMIT_OPTS": "-Xss4m"},
    ],
)
def test_if_the_environment_configures_java_sparks_scripts_start_it(given: dict[str, str]) -> None:
    environment = {"SPARK_HOME": str(spark_home()), **given}
    command = launch._command(SETTINGS, environment)
    assert command[0] == f"{environment['SPARK_HOME']}/bin/spark-submit"
    assert command[-1] == "pyspark-shell"
    assert ("--packages" in command) == ("PYSPARK_SUBMIT_ARGS" in given)


@pytest.mark.parametrize(
    ("master", "here"),
    [(None, True), ("local[2]", True), ("spark://127.0.0.1:7077", True), ("spark://far:7077", False), ("yarn", False)],
)
def test_what_runs_on_this_machine(master: str | None, *, here: bool) -> None:
    assert launch.is_on_this_machine(master) is here


@pytest.mark.parametrize("few", [True, False])
def test_driver_and_executors_start_from_one_archive_with_one_collector(
    monkeypatch: pytest.MonkeyPatch, *, few: bool
) -> None:
    monkeypatch.setattr(settings, "few_cores", lambda: few)
    driver, executor = (settings.java_options("-Xarchive", executor=each).split() for each in (False, True))
    for options in (driver, executor):
        assert options[-1] == "-Xarchive"
        assert ("-XX:+UseSerialGC" in options) == few
    assert set(executor) <= set(driver)
    assert "-XX:TieredStopAtLevel=1" in driver
    assert ("-XX:TieredStopAtLevel=1" in executor) == few
