"""What stands in deploy/ fits together: pinned, without rights, with paths that are there and commands that we have."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from crossline.cli.app import Crossline
from crossline.rules.rule_reader import load_rules_text
from crossline.settings.config import PipelineConfig, load_pipeline

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
CHART = DEPLOY / "helm" / "crossline"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
DOCKERFILE = (DEPLOY / "container" / "Dockerfile").read_text()
PINNED = re.compile(r"[a-z0-9./-]+:v?[0-9]+\.[0-9]+(\.[0-9]+)?(-[a-z0-9.-]+)?")


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile, in their order."""
    whole = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in whole.splitlines()) if word]


def instruction(name: str) -> list[str]:
    return [rest for word, rest in instructions() if word == name]


def parsed(command: list[str], tmp_path: Path) -> Any:
    """``command`` as our command line takes it, with a file in the place of that of the container."""
    (tmp_path / "pipeline.yaml").write_text("")
    given = [each.replace("/etc/crossline", str(tmp_path)) for each in command]
    return Crossline.load(given[0]).make_context(given[0], given[1:])


def test_images_are_pinned() -> None:
    images = [each["image"] for each in SERVICES.values()] + [each.partition(" ")[0] for each in instruction("FROM")]
    assert [image for image in images if PINNED.fullmatch(image) is None] == []
    assert len({each.partition(" ")[0] for each in instruction("FROM")}) == 1, "the environment is made for that Python"


def test_the_image_has_no_rights() -> None:
    assert instruction("USER") == ["10001:10001"]


def environment_of(stage: int) -> dict[str, str]:
    """What ENV says in the build (0), or in the image (1)."""
    found = re.split(r"^FROM ", DOCKERFILE.replace("\\\n", " "), flags=re.MULTILINE)[1 + stage]
    return dict(each.split("=", 1) for line in re.findall(r"^ENV (.*)", found, re.MULTILINE) for each in line.split())


def test_the_image_finds_its_kernels_where_it_may_write(tmp_path: Path) -> None:
    """Numba passes over a folder that it may not write to, and would compile for many minutes at each start."""
    built, own = Path(environment_of(0)["NUMBA_CACHE_DIR"]), Path(environment_of(1)["NUMBA_CACHE_DIR"])
    assert built.is_relative_to("/opt/crossline"), "it goes into the image"
    assert str(own).startswith("/tmp/"), "the one folder beside the state that may be written"  # noqa: S108 - its name
    (tmp_path / "built" / "decode").mkdir(parents=True)
    (tmp_path / "built" / "decode" / "a.nbi").write_text("compiled")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "crossline").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (tmp_path / "bin" / "crossline").chmod(0o755)
    shell, option, program, name = yaml.safe_load(instruction("ENTRYPOINT")[0])
    program = program.replace(str(built), str(tmp_path / "built")).replace(str(own), str(tmp_path / "own"))
    for _ in range(2):  # a container that is started again has its folder
        path = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
        command = [shell, option, program, name, "run", "a b", "--json"]
        done = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
        assert done.stdout == "<run><a b><--json>"
        assert [each.name for each in (tmp_path / "own").rglob("*.nbi")] == ["a.nbi"]


def test_the_image_copies_what_is_there() -> None:
    kept = (DEPLOY / "container" / "Dockerfile.dockerignore").read_text().splitlines()
    names = [line[1:] for line in kept if line.startswith("!")]
    assert [name for name in names if not (ROOT / name).exists()] == []
    from_setup = re.findall(r'"(requirements[\w-]*\.lock)"', (ROOT / "tools" / "setup.py").read_text())
    assert {*from_setup, "src", "tools", "pyproject.toml", "README.md", "LICENSE"} == set(names)


def test_the_image_drops_packages_of_developers_alone() -> None:
    (removal,) = [rest for rest in instruction("RUN") if "uninstall" in rest]
    removed = set(shlex.split(removal.partition("/python ")[2].partition("uninstall")[2])[2:])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    name = re.compile(r"[A-Za-z0-9-]+")
    extras = [each for extra in project["project"]["optional-dependencies"].values() for each in extra]
    needed = {name.match(each)[0] for each in [*project["project"]["dependencies"], *extras]}  # type: ignore[index]
    developers = {name.match(each)[0] for each in project["dependency-groups"]["dev"]}  # type: ignore[index]
    assert removed <= developers
    assert removed & needed == set()


def commands() -> Iterator[list[str]]:
    yield yaml.safe_load(instruction("CMD")[0])
    yield SERVICES["crossline"]["command"]
    yield yaml.safe_load(re.findall(r"args: (\[run.*\])", (CHART / "templates" / "statefulset.yaml").read_text())[0])


@pytest.mark.parametrize("command", list(commands()), ids=["Dockerfile", "compose", "chart"])
def test_the_commands_are_ours(command: list[str], tmp_path: Path) -> None:
    assert parsed(command, tmp_path).params["log_format"] == "json"


def test_compose_takes_rights_away() -> None:
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
    mine = SERVICES["crossline"]
    assert (mine["read_only"], mine["user"], mine["init"]) == (True, "10001:10001", True)
    assert "/healthz" in mine["healthcheck"]["test"][-1]
    assert [name for name, each in SERVICES.items() if "healthcheck" not in each] == ["rules", "topics"], "which end"


def test_compose_names_what_is_there() -> None:
    folder = DEPLOY / "compose"
    for name, service in SERVICES.items():
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            assert source in COMPOSE["volumes"] or (folder / source).exists(), f"{name}: {source}"
        for needed in service.get("depends_on", {}):
            assert needed in SERVICES
        for secret in service.get("secrets", []):
            assert secret in COMPOSE["secrets"]
    build = SERVICES["crossline"]["build"]
    assert (folder / build["context"] / build["dockerfile"]).samefile(DEPLOY / "container" / "Dockerfile")


def test_no_secret_is_written() -> None:
    """Passwords stand in files that are named."""
    reported = re.compile(r"(?i)(?:password|secret|token)\w*:[ ]*(\S.*)")
    for path in (path for path in DEPLOY.rglob("*") if path.is_file()):
        found = [
            each for each in reported.findall(path.read_text()) if not each.startswith(("/run/secrets/", "{file:"))
        ]
        assert [
            each for each in found if each not in {'""', "false"} and not each.startswith(("[", "{{", "{secretName"))
        ] == []


def pipeline_of(text: str, streams: str) -> PipelineConfig:
    return load_pipeline(text, "pipeline.yaml", lambda name: {"stream.yaml": streams}[name])


def pipelines() -> Iterator[tuple[PipelineConfig, list[str]]]:
    cards = ROOT / "examples" / "cards"
    text = (DEPLOY / "compose" / "pipeline.yaml").read_text()
    rules = [path.read_text() for path in sorted((cards / "rules").glob("*.yaml"))]
    yield pipeline_of(text, (cards / "stream.yaml").read_text()), rules
    files = VALUES["files"]
    yield pipeline_of(files["pipeline.yaml"], files["stream.yaml"]), list(VALUES["rules"].values())


@pytest.mark.parametrize(("config", "rules"), list(pipelines()), ids=["compose", "chart"])
def test_the_pipelines_are_ours(config: PipelineConfig, rules: list[str]) -> None:
    assert config.watch is not None
    assert config.watch.place.port == 9464
    assert config.engine.checkpoint.startswith("/var/lib/crossline/"), "where the volume is"
    assert rules
    for text in rules:
        assert load_rules_text(text, "rules.yaml", config.streams)


def test_compose_has_what_the_pipeline_names() -> None:
    config, _ = next(pipelines())
    topics = re.findall(r"make ([\w-]+) --partitions", SERVICES["topics"]["command"][0])
    assert set(topics) == {"payments", "alerts", "payments-dead"}
    hosts = {getattr(sink, "host", None) for sink in config.sinks} - {None}
    assert hosts <= set(SERVICES)


def test_the_chart_probes_what_is_served() -> None:
    text = (CHART / "templates" / "statefulset.yaml").read_text()
    assert re.findall(r"path: (/\w+)", text) == ["/healthz", "/healthz", "/readyz"]
    for right in ("runAsNonRoot: true", "runAsUser: 10001", "automountServiceAccountToken: false"):
        assert right in text
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version
    assert SERVICES["crossline"]["image"] == f"crossline:{version}"


def test_a_full_redis_holds_the_batch_and_evicts_no_key() -> None:
    command = SERVICES["redis"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


@pytest.mark.parametrize("names", [[], ["burst.yaml"], ["a.yml", "b c.yaml"]])
def test_the_chart_copies_the_rules_that_there_are(names: list[str], tmp_path: Path) -> None:
    """Rules may all come from a topic; then there are none to copy, and the pod has to start all the same."""
    (program,) = re.findall(r'args: (\["mkdir.*\])', (CHART / "templates" / "statefulset.yaml").read_text())
    (tmp_path / "from").mkdir()
    for name in names:
        (tmp_path / "from" / name).write_text("")
    script = yaml.safe_load(program)[0].replace("/etc/crossline-rules", str(tmp_path / "from"))
    subprocess.run(["/bin/sh", "-ec", script.replace("/var/lib/crossline", str(tmp_path / "to"))], check=True)
    assert sorted(path.name for path in (tmp_path / "to" / "rules").iterdir()) == names
