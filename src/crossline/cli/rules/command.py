"""``crossline rules``: check, list, show and change the rules of a folder, and show which version judged when."""

from __future__ import annotations

import typer

from crossline.cli.help import Commands

# Each in a module of its own kind, so that a check loads neither the engine nor what publishes.
_ELSEWHERE = {
    "check": "check:check",
    "list": "folder:list_rules",
    "show": "folder:show",
    "history": "folder:history",
    "publish": "folder:publish",
    "set-status": "folder:set_status",
    "approve": "approval:approve",
    "set-share": "approval:set_share",
    "release": "release:release",
    "publish-list": "topic:publish_list",
    "publish-table": "publish_table:publish_table",
    "test": "trial:try_rules",
    "explain": "explain:explain",
    "lint": "lint:lint",
    "prove": "prove:prove",
    "compare": "compare:compare",
    "shadow": "shadow:shadow",
    "suggest-threshold": "suggest:suggest_threshold",
}
app = Commands(
    {name: f"crossline.cli.rules.{place}" for name, place in _ELSEWHERE.items()},
    help="Check, explain, test, compare, publish and list rules.",
    no_args_is_help=True,
)


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="rules")
