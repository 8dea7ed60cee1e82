"""Entry point of ``crossline``: assembles the commands and maps errors to exit codes."""

from __future__ import annotations

import importlib
import sys

import typer

from crossline.cli.logs import configure
from crossline.core.errors import CrosslineError

# One module a command; each has ``register(app)``. Imported here in the order of the help page.
COMMANDS = ("init", "demo", "run", "backtest", "rules", "alerts", "generate", "doctor")

app = typer.Typer(
    name="crossline",
    help="Real-time pattern and fraud detection on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name in COMMANDS:
    importlib.import_module(f"crossline.cli.{_name}").register(app)


def main() -> None:
    """Run the command line; exit 0 done, 1 the answer is no or work failed, 2 wrong use, 128 + a signal's number."""
    configure()
    try:
        app()
    except CrosslineError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
