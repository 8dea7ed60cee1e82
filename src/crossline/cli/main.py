"""Entry point of ``crossline``: assembles the commands; ``outcome`` maps their errors to exit codes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import typer

from crossline.cli.help import fit_help
from crossline.cli.logs import configure
from crossline.cli.outcome import check_arguments, open_standard_streams, outcome

# One module a command; each has ``register(app)``.
COMMANDS = ("init", "demo", "run", "backtest", "rules", "alerts", "generate", "doctor")

app = typer.Typer(
    name="crossline",
    help="Real-time pattern and fraud detection on Apache Spark.\n\n"
    "Exit codes: 0 done, 1 the answer is no or the work failed, 2 wrong use.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name in COMMANDS:
    importlib.import_module(f"crossline.cli.{_name}").register(app)
fit_help(app)


def main() -> None:
    """Run the command line; exit 0 done, 1 the answer is no or work failed, 2 wrong use, 128 + a signal's number."""
    open_standard_streams()
    configure()
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code. An error is told on the standard error."""

    def run() -> object:
        check_arguments(arguments)
        return app(list(arguments), prog_name="crossline", standalone_mode=False)

    return outcome(run)


if __name__ == "__main__":
    main()
