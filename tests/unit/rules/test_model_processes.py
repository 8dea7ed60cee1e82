"""Models that run for ever, ask for all memory or end their process: refused, or without a score, and nothing else."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from crossline.basics.models import processes
from crossline.basics.models.model import BLOCK, Model, ModelError, Scorer
from crossline.basics.models.processes import DEATHS_MAX, HERE, Processes

from .onnxkit import filling, looping, weighted

FOR_EVER = 2**62


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Deaths of one test are none of another one's."""
    HERE._deaths.clear()
    yield
    HERE.close()
    HERE._deaths.clear()


def scorer(data: bytes) -> Scorer:
    return Scorer(Model.of("m.onnx", data), ("f",))


def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model that does not end take as little as it may when it is tried, not as much as it may when it runs."""
    monkeypatch.setattr(processes, "RUNS", processes.TRIED)
    monkeypatch.setattr("crossline.basics.models.model.RUNS", processes.TRIED)


def pid_of(of: Scorer) -> int:
    return HERE._running[of.model.digest]._process.pid


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (looping(FOR_EVER), "a model that takes more than"),
        (
            filling(1 << 36),
            "a model that asks for more memory than it gets; expected one that needs less than 1,024 MiB",
        ),
        (filling(1 << 23), "a model that asks for more memory than it gets"),  # 2 GiB
    ],
    ids=["for ever", "16 TiB", "2 GiB"],
)
def test_a_model_without_an_end_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        scorer(data).check()
    assert words in str(caught.value)
    with pytest.raises(ModelError):
        scorer(data).check()


def test_a_loop_that_ends_is_taken() -> None:
    mine = scorer(looping(1_000))
    mine.check()
    assert mine.scores(np.array([[4.5], [7.0]]))[0].tolist() == [4.5, 7.0]


@pytest.mark.parametrize("data", [looping(None), filling(None)], ids=["time", "memory"])
def test_a_record_at_which_a_model_does_not_end_has_no_score_and_harms_no_other(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passes the trial: what it does hangs on what a record has."""
    quickly(monkeypatch)
    mine = scorer(data)
    mine.check()
    features = np.arange(2.0 * BLOCK + 3)[:, None]
    features[BLOCK + 1] = 2.0**40
    scores, why = mine.scores(features)
    assert np.flatnonzero(np.isnan(scores)).tolist() == [BLOCK + 1]
    assert np.delete(scores, BLOCK + 1).tolist() == np.delete(features[:, 0], BLOCK + 1).tolist()
    assert why.startswith(("a model that takes more than 1 s of a processor", "a model that asks for more memory"))


def test_a_model_that_ends_its_process_time_and_again_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each record would cost seconds, and the run would stand still."""
    quickly(monkeypatch)
    mine, started = scorer(looping(None)), []
    began = processes._Process

    def counted(data: bytes, limits: processes.Limits) -> processes._Process:
        started.append(limits)
        return began(data, limits)

    monkeypatch.setattr(processes, "_Process", counted)
    scores, why = mine.scores(np.full((3 * BLOCK, 1), 2.0**40))
    assert np.isnan(scores).all()
    assert why.startswith(f"a model that ended its process {DEATHS_MAX} times, and is asked no more by this worker; ")
    assert len(started) == DEATHS_MAX
    assert np.isnan(mine.scores(np.ones((1, 1)))[0]).all()
    other = scorer(weighted(2))
    assert other.scores(np.ones((1, 1)))[0].tolist() == [2], "another model has nothing to do with it"


def test_a_killed_model_process_is_started_again() -> None:
    mine = scorer(weighted(3))
    assert mine.scores(np.ones((2, 1)))[0].tolist() == [3, 3]
    first = pid_of(mine)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert mine.scores(np.full((2, 1), 2.0))[0].tolist() == [6, 6]
    assert pid_of(mine) != first


def test_a_copy_of_the_process_that_asks_has_its_own() -> None:
    """Workers are forked: two that read one pipe would have each other's scores."""
    mine = scorer(weighted(5))
    assert mine.scores(np.ones((1, 1)))[0].tolist() == [5]

    def ask(give: multiprocessing.connection.Connection, value: float) -> None:
        give.send((mine.scores(np.full((70, 1), value))[0].tolist(), pid_of(mine)))

    context = multiprocessing.get_context("fork")
    ends = []
    for value in (2.0, 3.0):
        ours, theirs = context.Pipe()
        context.Process(target=ask, args=(theirs, value), daemon=True).start()
        ends.append((ours, value))
    assert mine.scores(np.full((70, 1), 7.0))[0].tolist() == [35.0] * 70
    pids = {pid_of(mine)}
    for ours, value in ends:
        scores, pid = ours.recv()
        assert scores == [5 * value] * 70
        pids.add(pid)
    assert len(pids) == 3


def test_a_signal_that_breaks_off_a_request_leaves_no_answer_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = scorer(weighted(1))
    mine.scores(np.ones((1, 1)))
    first, real = pid_of(mine), processes.read_message
    monkeypatch.setattr(processes, "read_message", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        mine.scores(np.full((3, 1), 8.0))
    monkeypatch.setattr(processes, "read_message", real)
    assert mine.scores(np.full((3, 1), 2.0))[0].tolist() == [2, 2, 2]
    assert pid_of(mine) != first


def test_there_are_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PROCESSES_MAX", 2)
    here = Processes()
    monkeypatch.setattr("crossline.basics.models.model.HERE", here)
    models = [scorer(weighted(weight)) for weight in (1, 2, 3)]
    assert [each.scores(np.ones((1, 1)))[0][0] for each in (*models, *models)] == [1, 2, 3, 1, 2, 3]
    assert len(here._running) == 2
    here.close()


PROGRAM = """
import sys
import numpy as np
from crossline.basics.models.model import Model, Scorer
from crossline.basics.models.processes import HERE
scorer = Scorer(Model.of("m", open(sys.argv[1], "rb").read()), ("f",))
print(scorer.scores(np.ones((1, 1)))[0][0], HERE._running[scorer.model.digest]._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["it ends", "it is killed"])
def test_it_ends_with_its_parent_and_has_no_secret(tmp_path: Path, end: str) -> None:
    (tmp_path / "m").write_bytes(weighted(4))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "m")]
    pipe, environment = subprocess.PIPE, {**os.environ, "CROSSLINE_TEST_SECRET": "hunter2"}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as asking:
        assert asking.stdout is not None
        assert asking.stdin is not None
        score, pid = asking.stdout.readline().split()
        assert score == "4.0"
        assert b"hunter2" not in Path(f"/proc/{pid}/environ").read_bytes()
        handle = os.pidfd_open(int(pid))
        try:
            if end == "it ends":
                asking.stdin.close()
                assert asking.wait() == 0
            else:
                asking.kill()
            assert select.select([handle], [], [], 60)[0], "the model's process is there still"
        finally:
            os.close(handle)


IDLE = """
import sys
from crossline.basics.models import session
session.IDLE_S = 0
session.serve(sys.stdin.buffer, sys.stdout.buffer, session.Board(session.mmap.mmap(-1, session.BOARD_BYTES)))
"""


def test_an_idle_model_process_ends_by_itself() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", IDLE], stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        processes.write_message(process.stdin, {"memory_bytes": 1 << 30, "open_s": 5}, weighted(4))
        assert process.wait(60) == 0
