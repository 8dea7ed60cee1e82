"""``make services``: starts the servers of examples/payments-kafka, lists their states, and stops them.

``python -m dev.services [start|stop|status|clear] [NAME ...]``. The exit code of ``status`` is
0 if all named servers run, else 1.
"""

from __future__ import annotations

import argparse
import os
import sys

from crossline.basics.errors import CrosslineError
from dev.services.group import MemberState, ServerGroup, services_folder, usual_folder
from dev.services.members import Member


def main(arguments: list[str]) -> int:
    """Run the command in ``arguments``; return the exit code."""
    parser = argparse.ArgumentParser(prog="services", description=__doc__)
    parser.add_argument("command", nargs="?", default="start", choices=["start", "stop", "status", "clear"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of servers; by default all")
    given = parser.parse_args(arguments)
    try:
        group = ServerGroup(services_folder(), os.environ)
        done: int = {"start": start, "stop": stop, "status": status, "clear": clear}[given.command](group, given.names)
    except CrosslineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped: nothing that was being started is left", file=sys.stderr)
        return 130
    return done


def start(group: ServerGroup, names: list[str]) -> int:
    """Start the servers that do not run, and print those that run."""

    def report(state: MemberState, seconds: float | None) -> None:
        how = "runs already" if seconds is None else f"started in {seconds:.1f} s"
        print(f"{line(state)}  {how}", flush=True)

    group.start(names, report)
    print(f"data, logs and the password of postgres: {group.folder}; end them with `make services-stop`")
    return 0


def stop(group: ServerGroup, names: list[str]) -> int:
    """Stop the running servers."""

    def report(member: Member, ran: bool) -> None:
        print(f"{member.name:<9} {'stopped' if ran else 'did not run'}", flush=True)

    group.stop(names, report)
    return 0


def status(group: ServerGroup, names: list[str]) -> int:
    """Print the running servers."""
    states = group.states(names)
    for each in states:
        print(f"{line(each)}  " + (f"process {each.pid}" if each.pid else f"its log: {group.log_file(each.member)}"))
    return 0 if all(each.address for each in states) else 1


def clear(group: ServerGroup, names: list[str]) -> int:
    """Remove all data."""
    if names:
        print("error: clear removes the data of all: name none", file=sys.stderr)
        return 2
    print(f"removed {group.folder}" if group.clear() else "there is no data of services")
    if usual_folder().is_symlink():
        usual_folder().unlink()
    return 0


def line(state: MemberState) -> str:
    """A member and its address, in columns."""
    where = state.address or ("has not answered yet" if state.pid else "does not run")
    return f"{state.member.name:<9} {where:<48}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
