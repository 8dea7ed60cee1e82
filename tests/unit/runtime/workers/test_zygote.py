"""What Spark starts as Python becomes a fork of one loaded process, or Python itself where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crossline.runtime.java.settings import OWN_STATE_SERVERS, SOCKET_VARIABLE
from crossline.runtime.machine import zygote_client as module
from crossline.runtime.machine.garbage import OBJECTS

ATTACH = Path(module.__file__)
PROBE = """
import gc, json, os, sys
raw = sys.stdin.read()
known = gc.get_threshold(), "pyarrow" in sys.modules
print(json.dumps([sys.argv[1:], raw, os.environ.get("GIVEN"), os.getcwd(), os.getppid(), *known]))
print("on stderr", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


# Where the state servers are of the daemons that are forked, a line each; a daemon opens a folder where there is none.
PLACES = """
from crossline.runtime.workers import state_server as module
inherited = module.state_server_folder()
module.open_state_server_folder()
print(inherited and inherited.folder, module.state_server_folder().folder, sep="\\n")
"""


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """The socket of a process that has loaded all, and its number."""
    with running(tmp_path_factory.mktemp("zygote")) as found:
        yield found


@contextmanager
def running(folder: Path, *more: str) -> Iterator[tuple[Path, int]]:
    """A zygote; ``more``: of its arguments."""
    (folder / "probe_module.py").write_text(PROBE)
    (folder / "places_module.py").write_text(PLACES)
    path = folder / "socket"
    command = [sys.executable, "-m", "crossline.runtime.workers.zygote", str(path), *more]
    python_path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": python_path}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        while not path.exists():
            assert process.poll() is None
            time.sleep(0.01)
        # One that still loads ends with another exit code when its input is closed: a fork shows that it has loaded.
        assert attach("-m", "probe_module", "0", socket=str(path), folder=folder).returncode == 0
        yield path, process.pid
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(300) == 0


def attach(*arguments: str, socket: str | None, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    where = {} if socket is None else {SOCKET_VARIABLE: socket}
    plain = {name: value for name, value in os.environ.items() if name != SOCKET_VARIABLE}
    return subprocess.run(
        [sys.executable, "-I", "-S", str(ATTACH), sys.executable, *arguments],
        input="from Java",
        capture_output=True,
        text=True,
        cwd=folder,
        env={**plain, **where, **environment},
        check=False,
        timeout=300,
    )


def test_a_fork_has_the_arguments_the_environment_the_folder_and_the_streams(
    zygote: tuple[Path, int], tmp_path: Path
) -> None:
    path, process = zygote
    done = attach("-m", "probe_module", "7", "more", socket=str(path), folder=tmp_path, GIVEN="this")
    assert json.loads(done.stdout) == [
        ["7", "more"],
        "from Java",
        "this",
        str(tmp_path),
        process,
        [OBJECTS, 20, 100],
        True,
    ]
    assert done.stderr == "on stderr\n"
    assert done.returncode == 7


def test_one_that_fails_fails_alone(zygote: tuple[Path, int], tmp_path: Path) -> None:
    path, _ = zygote
    done = attach("-m", "no_such_module", socket=str(path), folder=tmp_path)
    assert done.returncode == 1
    assert "no_such_module" in done.stderr
    assert attach("-m", "probe_module", "0", socket=str(path), folder=tmp_path).returncode == 0


@pytest.mark.parametrize("socket", [None, "no-such-socket"])
def test_without_one_it_is_python_itself(tmp_path: Path, socket: str | None) -> None:
    (tmp_path / "probe_module.py").write_text(PROBE)
    done = attach("-m", "probe_module", "3", socket=socket, folder=tmp_path, PYTHONPATH=str(tmp_path))
    arguments, raw, *_, loaded = json.loads(done.stdout)
    assert (arguments, raw, loaded, done.returncode) == (["3"], "from Java", False, 3)


def test_what_is_no_module_is_run_by_python_itself(zygote: tuple[Path, int], tmp_path: Path) -> None:
    path, _ = zygote
    done = attach("-c", "import sys; print(sys.version_info[:2])", socket=str(path), folder=tmp_path)
    assert done.stdout == f"{sys.version_info[:2]}\n"


def test_daemons_share_state_servers_unless_each_is_to_have_its_own(zygote: tuple[Path, int], tmp_path: Path) -> None:
    def places(path: Path) -> list[list[str]]:
        return [attach("-m", "places_module", socket=str(path), folder=tmp_path).stdout.splitlines() for _ in range(2)]

    path, _ = zygote
    (inherited, opened), again = places(path)
    assert inherited == opened != "None"
    assert again == [inherited, opened]
    with running(tmp_path, OWN_STATE_SERVERS) as (path, _):
        (nothing, first), (nothing_again, second) = places(path)
        assert nothing == nothing_again == "None"
        assert "None" not in {first, second}
        assert first != second
