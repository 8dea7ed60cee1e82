"""The browser of this machine, as ``tools/setup.py`` finds it, and how tests start it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_SETUP = Path(__file__).parents[2] / "tools" / "setup.py"
FLAGS = [
    "--no-sandbox",  # tests run as root in containers, where there is none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_browser() -> str | None:
    """Its path; None where there is none."""
    spec = importlib.util.spec_from_file_location("crossline_setup", _SETUP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: str | None = module.find_browser()
    return found
