"""How a command ends: every error becomes a line on the standard error and an exit code, here and nowhere else."""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

import typer

from crossline.basics.errors import CrosslineError, UsageError
from crossline.basics.texts.plaintext import printable, printable_lines
from crossline.cli.extras import missing

DONE, FAILED, WRONG_USE = 0, 1, 2
# As a shell reports a program that a signal ended: SIGINT, and SIGPIPE where the reader has gone.
INTERRUPTED, READER_GONE = 130, 141
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
# Python's text for such a path, for which it has no OSError.
_NO_PATH = ("embedded null", "Symlink loop")
# What typer raises for a command line that it cannot read; it gives the class no name of its own to import.
_WrongUse = typer.BadParameter.__bases__[0]


def outcome(work: Callable[[], object]) -> int:
    """Do ``work`` and give the exit code. What is no error of ours, the machine's or the user's is raised: a fault."""
    try:
        code = work()
        sys.stdout.flush()
    except BaseException as error:
        code = _code(error)
        if code is None:
            raise
    if not _flushed(sys.stdout) and code == DONE:
        code = FAILED
    return code if isinstance(code, int) else DONE


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse what cannot be a name, a path or a text: it would be met again in every place that writes it."""
    for number, text in enumerate(arguments, 1):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"argument {number} is not UTF-8: found {printable(text)}; expected UTF-8") from None
        if "\0" in text:
            raise UsageError(f"argument {number} has a NUL: found {printable(text)}; expected a text without")


def _code(error: BaseException) -> int | None:
    """Print ``error`` and return its exit code; None for an internal fault."""
    code: int | None = None
    if isinstance(error, SystemExit):
        # typer ends so where a pipe is closed.
        gone = isinstance(error.__context__, BrokenPipeError)
        code = READER_GONE if gone else error.code if isinstance(error.code, int) else None
    elif isinstance(error, KeyboardInterrupt | typer.Abort):
        code = _say("interrupted", INTERRUPTED)
    elif isinstance(error, CrosslineError):
        code = _say(str(error), error.exit_code)
    elif isinstance(error, MemoryError):
        code = _say(": ".join(filter(None, ("there is too little memory", str(error)))), FAILED)
    elif isinstance(error, ModuleNotFoundError) and (text := missing("this", error.name)) is not None:
        code = _say(text, WRONG_USE)
    elif isinstance(error, _WrongUse):
        code = _wrong_use(error)
    elif isinstance(error, BrokenPipeError) and (_reader_gone(1) or _reader_gone(2)):
        code = READER_GONE
    elif isinstance(error, OSError):
        code = _say(_of_system(error), FAILED)
    elif isinstance(error, ValueError | RuntimeError) and str(error).startswith(_NO_PATH):
        code = _say(f"a name is no path that can be followed: {error}", WRONG_USE)
    return code


def _wrong_use(error: BaseException) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        # A wide page was printed when the error was made, a narrow one is its text.
        sys.stderr.write(getattr(error, "message", "").rstrip() + "\n")
        return WRONG_USE
    text = getattr(error, "format_message", lambda: str(error))()
    hint = f"; see {context.command_path} --help" if context is not None else ""
    return _say(text.rstrip(".") + hint, WRONG_USE)


def _of_system(error: OSError) -> str:
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    reason = error.strerror or str(error)
    if names:
        return f"{' and '.join(names)}: {reason}"
    # Files that we write ourselves are named in their errors.
    return f"the standard output cannot be written: {reason}" if error.errno in _FULL else reason


def _say(text: str, code: int) -> int:
    try:
        sys.stderr.write(f"error: {printable_lines(text)}\n")
    except OSError:
        _silence(sys.stderr)
    return code


def _flushed(stream: TextIO) -> bool:
    """Whether all that was printed has gone out; what has not is dropped, or Python would complain at its end."""
    try:
        stream.flush()
    except OSError:
        _silence(stream)
        return False
    return True


def _silence(stream: TextIO) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def _reader_gone(number: int) -> bool:
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
