"""Processes that need the same kernel: one compiles it, the others wait and load it; what is compiled stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# What a kernel returns, and what it calls in another file.
CALLED = """
from numba import njit

from crossline.basics.kernels.part import Part
from crossline.basics.kernels.parts import PART


def added(x):
    return x + {added}


called = Part(lambda: njit(**PART)(added), "called")
"""
KERNELS = """
from crossline.basics.kernels.files import sources_of
from crossline.basics.kernels.kernel import Kernel
from tiny.called import called


def first(x):
    return called(x)


def second(x):
    return called(x) * 2


def broken(x):
    return x.nothing


first, second, broken = (Kernel(each, lambda: sources_of("tiny")) for each in (first, second, broken))


def made():
    def typed(x):
        return x

    return Kernel(typed, lambda: sources_of("tiny")).of("int64")
"""
# Says what happens, a line each; a line of its standard input lets it go on where it stops.
PROGRAM = """
import os, sys
from crossline.runtime.machine import compile_lock
from crossline.logs import configure_helper, configure_with

configure_with(configure_helper)  # as all processes but the one that people see

def report(what):
    print(what.state, what.kernel.rpartition(".")[2], what.by, flush=True)
    if what.state == "begins" and what.kernel.endswith(os.environ.get("STOP_AT", "-")):
        sys.stdin.readline()

compile_lock.on_compiling(report)
"""
FIRST = "from tiny.kernels import first; print(first(1))"
SECOND = "from tiny.kernels import second; print(second(1))"


def package(folder: Path) -> Path:
    """Makes the package ``tiny`` in ``folder``: kernels that take no time to compile."""
    (folder / "tiny").mkdir()
    (folder / "tiny" / "__init__.py").write_text('"""Tiny kernels."""\n')
    (folder / "tiny" / "called.py").write_text(CALLED.format(added=1))
    (folder / "tiny" / "kernels.py").write_text(KERNELS)
    return folder


@contextmanager
def start(folder: Path, *body: str, stop_at: str = "-", **settings: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs ``body`` and says what it compiles; it is gone afterwards."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHONPYCACHE"))}
    with subprocess.Popen(
        [sys.executable, "-c", "\n".join([PROGRAM, *body])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **plain,
            "PYTHONPATH": str(folder),
            "STOP_AT": stop_at,
            "XDG_CACHE_HOME": str(folder / "cache"),
            **settings,
        },
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def output_of(folder: Path, *body: str, **settings: str) -> list[str]:
    """What a process says that does ``body``."""
    with start(folder, *body, **settings) as process:
        out, errors = process.communicate(timeout=60)
    assert errors == "", errors
    return out.splitlines()


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return package(tmp_path)


def test_what_is_compiled_is_reported_and_what_is_loaded_is_not(tiny: Path) -> None:
    assert output_of(tiny, FIRST) == ["begins first 0", "ends first 0", "2"]
    assert output_of(tiny, FIRST) == ["2"]


def test_another_process_waits_says_so_in_one_line_and_loads_what_the_first_one_made(tiny: Path) -> None:
    with start(tiny, FIRST, stop_at="first") as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "begins first 0\n"
        with start(tiny, FIRST) as two:
            assert two.stdout is not None
            assert two.stdout.readline() == f"waits first {one.pid}\n"
            out, errors = one.communicate("go on\n", timeout=60)
            assert (out, errors) == ("ends first 0\n2\n", "")
            out, errors = two.communicate(timeout=60)
        assert out == "2\n"
        (line,) = errors.splitlines()
        assert "another process compiles kernels: waiting for it" in line
        assert str(one.pid) in line


def test_a_compilation_that_is_killed_lets_the_next_one_in_and_keeps_what_was_done(tiny: Path) -> None:
    with start(tiny, FIRST, SECOND, stop_at="second") as one:
        assert one.stdout is not None
        assert [one.stdout.readline() for _ in range(4)] == [
            *("begins first 0\n", "ends first 0\n", "2\n", "begins second 0\n")
        ]
        with start(tiny, SECOND) as two:
            assert two.stdout is not None
            assert two.stdout.readline() == f"waits second {one.pid}\n"
            one.kill()
            out, _ = two.communicate(timeout=60)
        assert out == "begins second 0\nends second 0\n4\n"
    assert output_of(tiny, FIRST, SECOND) == ["2", "4"]


def test_one_that_fails_lets_the_next_one_in(tiny: Path) -> None:
    wrong = "from tiny.kernels import first\ntry: first('a', 1)\nexcept TypeError: print('failed')\n"
    untyped = "from tiny.kernels import broken\ntry: broken(1)\nexcept Exception as e: print(type(e).__name__)\n"
    assert output_of(tiny, wrong, FIRST) == ["failed", "begins first 0", "ends first 0", "2"]
    found = output_of(tiny, untyped, SECOND)
    assert found == ["begins broken 0", "ends broken 0", "TypingError", "begins second 0", "ends second 0", "4"]


def test_a_change_in_a_file_that_a_kernel_calls_counts(tiny: Path) -> None:
    """A cache by the file of the kernel alone would answer 2 for ever."""
    assert output_of(tiny, FIRST)[-1] == "2"
    # Of another size: Python takes its bytecode of a file of the same size that was written in the same second.
    (tiny / "tiny" / "called.py").write_text(CALLED.format(added=50))
    assert output_of(tiny, FIRST) == ["begins first 0", "ends first 0", "51"]


def test_what_a_killed_process_had_not_written_yet_is_not_taken_from_what_lay_there(tiny: Path) -> None:
    """A file has its name once it is whole."""
    assert output_of(tiny, FIRST)[-1] == "2"
    kernels = tiny / "tiny" / "kernels.py"
    kernels.write_text(KERNELS.replace("return called(x)\n", "return called(x) + 70\n"))
    killed = "from pathlib import Path; Path.replace = lambda *_: os._exit(0)"
    assert output_of(tiny, killed, FIRST) == ["begins first 0"]
    assert output_of(tiny, FIRST) == ["begins first 0", "ends first 0", "72"]
    assert output_of(tiny, FIRST) == ["72"]


def test_builds_are_kept_apart(tiny: Path) -> None:
    assert output_of(tiny, FIRST) == ["begins first 0", "ends first 0", "2"]
    assert output_of(tiny, FIRST, NUMBA_BOUNDSCHECK="1") == ["begins first 0", "ends first 0", "2"]
    assert output_of(tiny, FIRST) == ["2"]
    assert output_of(tiny, FIRST, NUMBA_BOUNDSCHECK="1") == ["2"]


def test_one_for_given_types_takes_no_others(tiny: Path) -> None:
    body = "from tiny.kernels import made; print(made()(1.5))"
    assert output_of(tiny, body) == ["begins typed 0", "ends typed 0", "1"]
    assert output_of(tiny, body) == ["1"]


def test_a_folder_without_locks_is_compiled_in_all_the_same(tiny: Path) -> None:
    folder = tiny / "cache" / "crossline" / "kernels" / "tiny.kernels"
    folder.mkdir(parents=True)
    (folder / "compiling.lock").symlink_to(tiny / "elsewhere")
    assert output_of(tiny, FIRST) == ["begins first 0", "ends first 0", "2"]
    assert not (tiny / "elsewhere").exists()


def test_a_fork_waits_for_its_parent(tiny: Path) -> None:
    """It has no lock of its parent's, neither to lean on nor to keep from others once its parent let go of it."""
    body = """
from crossline.runtime.machine.compile_lock import compile_turn
with compile_turn("held", os.environ["PYTHONPATH"]) as begins:
    asks, says = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(says)
        os.read(asks, 1)
        with compile_turn("of the fork", os.environ["PYTHONPATH"]) as begins:
            begins()
        os._exit(0)
    os.close(asks)
with compile_turn("again", os.environ["PYTHONPATH"]) as begins:
    begins()
os.close(says)
print(os.waitpid(child, 0)[1])
"""
    assert output_of(tiny, body) == [
        *("begins again 0", "ends again 0", "begins of the fork 0", "ends of the fork 0", "0")
    ]


def test_listening_ends(tiny: Path) -> None:
    body = "quiet = compile_lock.on_compiling(lambda what: print('too', what.state)); quiet()"
    assert output_of(tiny, body, FIRST) == ["begins first 0", "ends first 0", "2"]
