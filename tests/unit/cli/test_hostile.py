"""Every command with hostile values: an error line and an exit code, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from crossline.basics.errors import PermanentError
from crossline.cli.init import template_files
from crossline.cli.main import run_command
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink

from .alertkit import ALERTS, DEAD

HUGE = "9" * 30
NUMBERS = ["0", "-1", str(2**63 - 1), str(2**63), str(-(2**63) - 1), HUGE, "9" * 5_000, "1e3", "nan", "", "²", "٣"]
TEXTS = [
    "",
    "\0",
    "a\0b",
    "\udcff",
    "\ud800",
    "\x1b[2J",
    "\u202e",
    "=1+1",
    "-",
    "--",
    "a" * 5_000,
    "%s",
    "{}",
    "[/red]",
    "'",
]
PATHS = [".", "/", "no/such/place", "a\0b", "\udcff", "", "x" * 300, "locked", "locked/in", "ring", "binary", "pipe/x"]

# Options by the kind of their values; every command that has them.
READS = {
    "alerts list": ["--db", "--pipeline"],
    "alerts show 11": ["--db", "--pipeline"],
    "alerts export": ["--db", "--pipeline"],
    "alerts dead": ["--db", "--pipeline"],
    "rules list": ["--rules", "--pipeline"],
    "rules show spending": ["--rules", "--pipeline"],
    "rules history --all": ["--rules", "--pipeline"],
    "rules check rules": ["--stream", "--lists"],
    "rules check": [""],
    "rules publish": [""],
    "rules publish rules/spending.yaml": ["--rules", "--stream", "--lists"],
    "rules set-status spending active": ["--rules", "--stream"],
    "doctor": ["--pipeline"],
    "run": [""],
    "backtest --stream stream.yaml --input none --output x": ["--rules"],
    "backtest --rules rules --input none --output x": ["--stream"],
    "backtest --rules rules --stream stream.yaml --output x": ["--input"],
    "backtest --rules rules --stream stream.yaml --input none --output x": [
        "--compare",
        "--lists",
        "--as-of-log --pipeline",
    ],
}
WRITES = {
    "alerts export --db store.db": ["--output"],
    "init": [""],
    "generate tx --records 3": ["--output", "--files 2 --output"],
    "generate cards --records 3 --output r": ["--labels"],
    "generate rules --count 3": ["--output"],
    "backtest --rules rules --stream stream.yaml --input in/nothing-*": ["--output"],
}
COUNTS = {
    "alerts list --db store.db": ["--limit", "--since", "--until"],
    "alerts dead --db store.db": ["--limit"],
    "rules show spending": ["--version"],
    "rules set-status spending active": ["--version"],
    "generate tx --output -": ["--records"],
    "generate tx --records 3 --output -": [
        *("--start", "--seed", "--rate", "--event-rate", "--accounts", "--merchants", "--disorder-ms", "--base-time"),
    ],
    "generate tx --records 3 --output parts": ["--files"],
    "generate cards --records 3 --output -": [
        *("--start", "--seed", "--event-rate", "--accounts", "--disorder-ms", "--frauds", "--base-time"),
    ],
    "generate rules": ["--count"],
    "demo --folder taken": ["--records", "--pace"],
}
SAID = {
    "alerts list --db store.db": ["--rule", "--key", "--since", "--until", "--kind", "--severity"],
    "alerts show --db store.db": [""],
    "alerts dead --db store.db": ["--reason"],
    "rules show": [""],
    "rules history": [""],
    "rules set-status spending": [""],
    "rules set-status": ["active"],
    "generate tx --records 3 --output -": ["--base-time"],
    "demo": ["--folder"],
    "nothing": [""],
    "": [""],
}
VALUES = {"READS": (READS, PATHS), "WRITES": (WRITES, PATHS), "COUNTS": (COUNTS, NUMBERS), "SAID": (SAID, TEXTS)}
# They would go on for long, or make much.
LEFT_OUT = {
    ("generate tx --output -", "--records", str(2**63 - 1)),
    ("demo", "--folder", "-"),
    ("demo", "--folder", "--"),
}


def cases(commands: dict[str, list[str]], values: list[str]) -> Iterator[tuple[str, str, str]]:
    for command, options in commands.items():
        for option in options:
            for value in values:
                if (command, option, value) not in LEFT_OUT:
                    yield command, option, value


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, content in template_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    sink = SqliteSink(folder / "store.db", "payments")
    sink.open()
    sink.deliver(Delivery("payments", 0, alerts=ALERTS, dead=DEAD))
    sink.close()
    (folder / "locked").mkdir()
    (folder / "locked" / "in").touch(mode=0)
    (folder / "locked").chmod(0)
    (folder / "ring").symlink_to("ring")
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "taken").mkdir()
    (folder / "taken" / "mine").touch()
    return folder


def no_java() -> None:
    raise PermanentError("no Java in this test")


@pytest.fixture
def run(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[list[str]], tuple[int, str, str]]:
    """Runs a command line as the program does, in this process; a traceback is an exception here."""
    monkeypatch.chdir(project)
    # What is right as far as Spark ends there.
    monkeypatch.setattr("crossline.runtime.java.launch.find_java", no_java)
    monkeypatch.setattr("crossline.cli.doctor.command.machine_findings", lambda **_: [])

    def command(arguments: list[str]) -> tuple[int, str, str]:
        code = run_command(arguments)
        out, err = capfd.readouterr()
        return code, out, err

    return command


@pytest.mark.parametrize("kind", ["READS", "WRITES", "COUNTS", "SAID"])
def test_hostile_values_end_in_a_line(run: Callable[[list[str]], tuple[int, str, str]], kind: str) -> None:
    for command, option, value in cases(*VALUES[kind]):
        arguments = [*command.split(), *option.split(), value]
        code, out, err = run(arguments)
        text = f"{' '.join(arguments)!a:.200}: {code} {err!a:.400}"
        assert code in {0, 1, 2}, text
        assert "Traceback" not in err + out, text
        if code == 2:
            assert "error: " in err or "Usage:" in err + out, text
        assert "\x1b" not in err + out, text


@pytest.mark.parametrize("command", ["alerts list --pipeline", "doctor --pipeline", "run"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("streams", '"a\\0b"'),
        ("streams", "locked/in"),
        ("streams", "."),
        ("streams", "binary"),
        ("streams", "ring"),
        ("rules", '{kind: directory, path: "a\\0b"}'),
        ("rules", "{kind: directory, path: ring}"),
        ("sinks", '[{kind: sqlite, path: "a\\0b"}]'),
        ("sinks", "[{kind: sqlite, path: .}]"),
        ("engine", '{checkpoint: "a\\0b"}'),
    ],
)
def test_a_pipeline_with_hostile_names_ends_in_a_line(
    project: Path, run: Callable[[list[str]], tuple[int, str, str]], command: str, key: str, value: str
) -> None:
    rest = yaml.safe_load((project / "pipeline.yaml").read_text())
    rest.pop(key, None)
    (project / "hostile.yaml").write_text(f"{yaml.safe_dump(rest)}{key}: {value}\n")
    code, out, err = run([*command.split(), "hostile.yaml"])
    assert code in {0, 1, 2}, err
    assert code == 0 or "error: " in err, err + out


def real(arguments: str, **settings: object) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "crossline.cli.main", *arguments.split()]
    return subprocess.Popen(program, stderr=subprocess.PIPE, **settings)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("arguments", ["rules list", "generate tx --records 200000 --output -", "--help"])
def test_a_full_standard_output_is_an_error(project: Path, arguments: str) -> None:
    with Path("/dev/full").open("wb") as full:
        program = real(arguments, cwd=project, stdout=full)
        _, err = program.communicate(timeout=300)
    lines = [line for line in err.decode().splitlines() if line.startswith("error: ")]
    assert lines == ["error: the standard output cannot be written: No space left on device"]
    assert b"Traceback" not in err
    assert program.returncode == 1


@pytest.mark.parametrize(
    "arguments", ["rules list", "generate tx --records 200000 --output -", "alerts export --db store.db"]
)
def test_a_reader_that_goes_away_ends_it_quietly(project: Path, arguments: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = real(arguments, cwd=project, stdout=writing)
    os.close(writing)
    _, err = program.communicate(timeout=300)
    assert b"rror" not in err
    assert b"Traceback" not in err
    assert program.returncode == 128 + signal.SIGPIPE


def test_closed_streams_are_no_error(project: Path) -> None:
    shell = (
        f"exec {sys.executable} -m crossline.cli.main alerts export --db store.db --output closed.jsonl <&- >&- 2>&-"
    )
    assert subprocess.run(["/bin/sh", "-c", shell], cwd=project, check=False, timeout=300).returncode == 0
    assert (project / "closed.jsonl").read_bytes().count(b"\n") == len(ALERTS)


def test_where_the_process_prints_may_be_named(project: Path) -> None:
    """The file behind the standard output is neither replaced nor written over."""
    shell = f"echo before; {sys.executable} -m crossline.cli.main alerts export --db store.db --output /dev/stdout"
    with (project / "printed").open("wb") as file:
        subprocess.run(
            ["/bin/sh", "-c", shell], cwd=project, check=True, timeout=300, stdout=file, stderr=subprocess.PIPE
        )
    lines = (project / "printed").read_bytes().splitlines()
    assert lines[0] == b"before"
    assert len(lines) == 1 + len(ALERTS)


def test_a_screen_without_unicode_shows_what_it_can(project: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    program = real("rules show sp\u00e9nding", cwd=project, stdout=subprocess.PIPE, env=environment)
    _, err = program.communicate(timeout=300)
    assert b"Traceback" not in err
    assert b"sp\\xe9nding" in err
    assert program.returncode == 1
