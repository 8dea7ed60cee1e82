"""A backtest in a process of its own: the same answers, errors and stops as in the process that asks for it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from crossline.backtest import in_process
from crossline.backtest.alert_writer import AlertWriter
from crossline.backtest.backtest import BacktestSpec
from crossline.backtest.engine_process import EngineProcess, RemoteRun
from crossline.basics.errors import PermanentError, StoppedError, UsageError
from crossline.io.sinks.outfile import draft_file
from e2e.ended import still_running
from unit.backtest.two_keys import FIRST, LINES, RULE, STREAM, alerts, written

GONE_S = 60.0


@pytest.fixture
def judged(tmp_path: Path) -> BacktestSpec:
    return written(tmp_path)


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    begun = EngineProcess.begin()
    yield begun
    begun.end()
    begun.end()  # twice is once


@pytest.mark.parametrize("alone_bytes", [0, len(LINES)])
def test_it_judges_run_after_run(
    judged: BacktestSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone_bytes: int
) -> None:
    monkeypatch.setattr(in_process, "ALONE_BYTES", alone_bytes)
    engine = EngineProcess.begin()
    try:
        for number in range(2):
            runs: list[RemoteRun] = []
            seen: list[tuple[int, int]] = []
            found = engine.backtest(
                judged,
                tmp_path / f"{number}.jsonl",
                on_start=runs.append,
                on_batch=lambda delivery, totals, seen=seen: seen.append((delivery.batch_id, totals.records)),
            )
            assert alerts(tmp_path / f"{number}.jsonl") == FIRST
            assert (found.path, found.totals.records, found.totals.alerts) == (
                tmp_path / f"{number}.jsonl",
                len(LINES.splitlines()),
                {"r": 2},
            )
            assert (seen, [run.running for run in runs]) == ([(0, len(LINES.splitlines()))], [True])
    finally:
        engine.end()


def test_its_errors_are_those_of_a_run_in_the_same_process(
    engine: EngineProcess, judged: BacktestSpec, tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").unlink()
    with pytest.raises(UsageError) as here:
        in_process.backtest(judged, tmp_path / "alerts.jsonl")
    with pytest.raises(UsageError) as there:
        engine.backtest(judged, tmp_path / "alerts.jsonl")
    assert str(there.value) == str(here.value)
    (tmp_path / "in.jsonl").write_bytes(LINES)  # and it goes on
    engine.backtest(judged, tmp_path / "alerts.jsonl")
    assert alerts(tmp_path / "alerts.jsonl") == FIRST


@pytest.mark.parametrize("error", [BrokenPipeError(32, "gone", "x"), EOFError("end"), OSError(28, "full", "x")])
def test_an_error_of_the_system_stays_one(
    judged: BacktestSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(in_process, "backtest", fails)
    engine = EngineProcess.begin()
    try:
        with pytest.raises(type(error)) as found:
            engine.backtest(judged, tmp_path / "alerts.jsonl")
        assert found.value.args == error.args
        assert psutil.pid_exists(engine.number)
    finally:
        engine.end()


def test_a_fault_comes_with_its_place(judged: BacktestSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class OddError(Exception):
        """No other process can load it."""

    def fails(*_: object, **__: object) -> None:
        raise OddError("found so")

    monkeypatch.setattr(in_process, "backtest", fails)
    engine = EngineProcess.begin()
    try:
        with pytest.raises(RuntimeError, match=r"(?s)in fails.*OddError: found so"):
            engine.backtest(judged, tmp_path / "alerts.jsonl")
    finally:
        engine.end()


def test_a_run_that_is_stopped_leaves_the_output_as_it_was(
    engine: EngineProcess, judged: BacktestSpec, tmp_path: Path
) -> None:
    (tmp_path / "alerts.jsonl").write_text("before\n")
    with pytest.raises(StoppedError):
        engine.backtest(judged, tmp_path / "alerts.jsonl", on_start=RemoteRun.stop)
    assert (tmp_path / "alerts.jsonl").read_text() == "before\n"


@pytest.mark.parametrize(
    ("ending", "text"),
    [(lambda: os._exit(3), r"exit code 3\)"), (lambda: os.kill(os.getpid(), signal.SIGKILL), "exit code -9: Killed")],
)
def test_that_it_died_is_said(judged: BacktestSpec, tmp_path: Path, ending: Any, text: str) -> None:
    engine = EngineProcess.begin([ending])
    try:
        with pytest.raises(PermanentError, match=f"the process that judges ended \\({text}"):
            engine.backtest(judged, tmp_path / "alerts.jsonl")
    finally:
        engine.end()


def test_one_that_died_while_it_wrote_leaves_nothing_beside_the_output(
    judged: BacktestSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AlertWriter, "deliver", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    (tmp_path / "out").mkdir()
    engine = EngineProcess.begin()
    try:
        with pytest.raises(PermanentError, match="-9: Killed"), draft_file(tmp_path / "out/alerts.jsonl") as draft:
            engine.backtest(judged, draft)
    finally:
        engine.end()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_signal_of_a_terminal_is_the_commands(engine: EngineProcess, judged: BacktestSpec, tmp_path: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(engine.number, number)
    engine.backtest(judged, tmp_path / "alerts.jsonl")
    assert alerts(tmp_path / "alerts.jsonl") == FIRST


def test_its_files_have_the_rights_of_the_command(engine: EngineProcess, judged: BacktestSpec, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        engine.backtest(judged, tmp_path / "made/alerts.jsonl")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "made", tmp_path / "made/alerts.jsonl")] == [
        0o750,
        0o640,
    ]


def test_it_ends_with_the_command_however_that_ends() -> None:
    code = "import signal; from crossline.backtest.engine_process import EngineProcess\n"
    code += "print(EngineProcess.begin().number, flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        engine = psutil.Process(int(command.stdout.readline()))
        command.kill()
    assert still_running([engine], GONE_S) == []


# Runs a command as the program does, and says at its end what it has loaded itself.
LOADED = """
import atexit, sys
from crossline.cli.launch import engine
from crossline.cli.main import main
engine.processors = lambda: 2
heavy = {"numpy", "pyarrow", "llvmlite"}
atexit.register(lambda: print(*sorted({name.partition(".")[0] for name in sys.modules} & heavy)))
main()
"""


def lay_out(folder: Path) -> Sequence[str]:
    (folder / "in.jsonl").write_bytes(LINES)
    (folder / "stream.yaml").write_text(STREAM)
    (folder / "r.yaml").write_text(RULE)
    return ("--stream", "stream.yaml", "--rules", "r.yaml", "--input", "in.jsonl")


def test_the_command_itself_loads_nothing_that_judges(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED, "backtest", *lay_out(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert alerts(tmp_path / "alerts.jsonl") == FIRST
    assert done.stdout.splitlines()[-1] == ""


def test_a_comparison_is_two_runs_of_it(tmp_path: Path) -> None:
    arguments = lay_out(tmp_path)
    (tmp_path / "other.yaml").write_text(RULE.replace("threshold: 3", "threshold: 4"))
    command = [sys.executable, "-c", LOADED, "backtest", *arguments, "--compare", "other.yaml", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (compared,) = orjson.loads(done.stdout.splitlines()[0])["compare"].values()
    assert (compared["both"], compared["appear"], compared["disappear"]) == (0, 2, 2)


def test_an_output_that_does_not_fit_is_named(tmp_path: Path) -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    command = [sys.executable, "-c", limited + LOADED, "backtest", *lay_out(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: alerts.jsonl cannot be written: File too large\n")
    assert not (tmp_path / "alerts.jsonl").exists()


# What other rules, formats and decisions need; and what makes or reads texts, which the command does.
UNUSED = {
    "crossline.basics.models.model",
    "crossline.basics.texts.yamltext",
    "crossline.evaluate.suppression.changes",
    "crossline.ingest.enrich.join",
    "crossline.io.tokens.opening",
    "crossline.plan.pattern_spaces",
    "crossline.rules.figure",
    "crossline.rules.figure_tables",
    "crossline.rules.holds.hold",
    "crossline.rules.rule_reader",
    "crossline.rules.types.formula",
    "crossline.runtime.stages.alert_holds",
    "crossline.runtime.stages.decision_stage",
    "crossline.runtime.stages.feature_table",
    "importlib.metadata",
    "pydantic.plugin._loader",  # loaded as the first model of pydantic gets what validates it
    "sqlite3",
    "yaml",
}
# Runs a backtest as the engine does, in processes; writes what was loaded when they were forked, and what came later.
FORKED = """
import io, multiprocessing.popen_fork, pickle, sys
from pathlib import Path
from crossline.backtest import engine_process
from crossline.cli.launch.process import be_alone, do_without_pandas
be_alone()
do_without_pandas()
engine_process._serve(io.BytesIO(), io.BytesIO(), engine_process.SharedFlag())
from crossline.backtest import in_process
from crossline.runtime.local import pool, worker
start, run = pool.Pool._start, worker.Worker.run

def starts(self):
    self.loaded = set(sys.modules)
    Path("loaded").write_text(" ".join(self.loaded))
    worker.Worker.run = lambda mine, request: ran(mine, request, self.loaded)
    start(self)

def ran(self, request, loaded):
    try:
        return run(self, request)
    finally:
        with Path("later").open("a") as file:
            print(*set(sys.modules) - loaded, file=file)

pool.Pool._start = starts
in_process.backtest(pickle.loads(Path("judged").read_bytes()), Path("alerts.jsonl"), processes=2)
"""


def test_what_rules_need_is_loaded_before_processes_are_forked_and_nothing_else(
    judged: BacktestSpec, tmp_path: Path
) -> None:
    (tmp_path / "judged").write_bytes(pickle.dumps(judged))
    subprocess.run([sys.executable, "-c", FORKED], cwd=tmp_path, check=True)
    assert alerts(tmp_path / "alerts.jsonl") == FIRST
    loaded = set((tmp_path / "loaded").read_text().split())
    assert {"crossline.rules.types.velocity", "llvmlite", "numpy.ma"} <= loaded
    assert loaded & UNUSED == set()
    assert set((tmp_path / "later").read_text().split()) == set()
