"""Several independent servers: different processes start, inspect and stop them, over one folder.

Locks say which servers run; the operating system releases a lock when its process ends (see ``supervision``). So a
process killed at any moment leaves nothing that misleads a later start or stop.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crossline.basics.errors import PermanentError, UsageError
from crossline.runtime.machine.cache_folder import cache_dir, checkout
from dev.services.members import MEMBERS, Member
from dev.services.postgres_binaries import can_enter, identity
from dev.services.supervision import HOST, end, is_free, running

FOLDER_VARIABLE = "CROSSLINE_SERVICES"
MARKER = ".crossline-services"
_READY = "ready"
_STOP_S_MAX = 60.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class MemberState:
    """The state of a member: ``pid`` if it runs, ``address`` at which it answered after its start."""

    member: Member
    pid: int | None
    address: str | None


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """The servers of ``folder``, one folder each. ``environment`` may name other ports."""

    folder: Path
    environment: Mapping[str, str]
    members: Sequence[Member] = MEMBERS

    def chosen(self, names: Sequence[str]) -> list[Member]:
        """The members with these names, or all members; raises UsageError for an unknown name."""
        known = {each.name: each for each in self.members}
        for name in names:
            if name not in known:
                raise UsageError(f"there is no service {name!r}; there are {', '.join(known)}")
        return [each for each in self.members if not names or each.name in names]

    def states(self, names: Sequence[str] = ()) -> list[MemberState]:
        """The running members; an unknown state counts as not running."""
        return [self._state(each) for each in self.chosen(names)]

    def start(self, names: Sequence[str], report: Callable[[MemberState, float | None], None]) -> None:
        """Start what does not run; ``report`` each member with the seconds that its start took, None for one that ran.

        All run at the end, or nothing that this call started. Raises UsageError for ports that are taken, and what the
        servers raise.
        """
        self._own()
        with self._locked():
            chosen = self.chosen(names)
            lacking = []
            for each in chosen:
                state = self._state(each)
                if state.address is not None:
                    report(state, None)
                    continue
                self._end(each)  # one whose start was cut off, if there is one
                lacking.append(each)
            self._check_ports(lacking)
            self._start(lacking, report)

    def stop(self, names: Sequence[str], report: Callable[[Member, bool], None]) -> None:
        """Stop the running members; ``report`` each member, and whether it ran."""
        chosen = self.chosen(names)
        if not self._is_own():
            for each in chosen:
                report(each, False)
            return
        with self._locked(), ThreadPoolExecutor(len(chosen)) as pool:
            ended = {pool.submit(self._end, each): each for each in chosen}
            for done in as_completed(ended):
                report(ended[done], done.result())

    def clear(self) -> bool:
        """Remove the folder with all data; whether there was one. Raises UsageError while something runs."""
        if not self._is_own():
            return False
        with self._locked():
            up = [each.member.name for each in self.states() if each.pid is not None]
            if up:
                raise UsageError(f"{', '.join(up)} still run in {self.folder}: stop first, `make services-stop`")
            shutil.rmtree(self.folder)
        return True

    def log_file(self, member: Member) -> Path:
        """The log of the member, if it ever ran."""
        return self.folder / member.name / f"{member.log or member.name}.log"

    def _state(self, member: Member) -> MemberState:
        pid = running(self.folder / member.name)
        ready = self.folder / member.name / _READY
        return MemberState(member, pid, ready.read_text(encoding="utf-8") if pid and ready.is_file() else None)

    def _check_ports(self, members: Sequence[Member]) -> None:
        wanted = [(port, each) for each in members for port in self._ports(each)]
        taken = [(port, each) for port, each in wanted if not is_free(port)]
        twice = [(port, each) for port, each in wanted if [number for number, _ in wanted].count(port) > 1]
        if taken:
            advice = "".join(
                f"\n  {port}, the port of {each.name}: name another with {each.variable}" for port, each in taken
            )
            raise UsageError(f"these ports of {HOST} are taken by other programs; end those, or:{advice}")
        if twice:
            raise UsageError(f"two services have the same port {twice[0][0]}: {', '.join(e.name for _, e in twice)}")

    def _ports(self, member: Member) -> range:
        first = member.port_in(self.environment)
        return range(first, first + member.ports)

    def _start(self, members: Sequence[Member], report: Callable[[MemberState, float | None], None]) -> None:
        if not members:
            return
        with ThreadPoolExecutor(len(members)) as pool:
            started = {pool.submit(self._start_one, each): each for each in members}
            try:
                for done in as_completed(started):
                    report(self._state(started[done]), done.result())
            except BaseException:
                # Stopped here, so that a waiting thread sees it at once, and so are starting servers.
                while wait(started, timeout=_LOOK_S).not_done:
                    self._end_all(members)
                self._end_all(members)
                raise

    def _end_all(self, members: Sequence[Member]) -> None:
        for each in members:
            self._end(each)

    def _start_one(self, member: Member) -> float:
        began_s = time.monotonic()
        folder, port = self.folder / member.name, member.port_in(self.environment)
        ready = folder / _READY
        ready.unlink(missing_ok=True)
        server = member.make(folder, port)
        entered = server.__enter__()
        try:
            member.prepare(entered)
            partial = ready.with_suffix(".new")
            partial.write_text(member.address.format(port=port), encoding="utf-8")
            partial.replace(ready)
        except BaseException as error:
            server.__exit__(type(error), error, error.__traceback__)
            raise
        return time.monotonic() - began_s

    def _end(self, member: Member) -> bool:
        ended = end(self.folder / member.name, member.how, _STOP_S_MAX)
        (self.folder / member.name / _READY).unlink(missing_ok=True)
        return ended

    def _is_own(self) -> bool:
        return (self.folder / MARKER).is_file()

    def _own(self) -> None:
        """Claim the folder; raises UsageError if it has other content."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o711)
            found = self.folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                raise UsageError(f"{self.folder} is another user's: name another folder with {FOLDER_VARIABLE}")
            if not self._is_own():
                if any(self.folder.iterdir()):
                    raise UsageError(
                        f"{self.folder} is not empty, and no services made it: name another with {FOLDER_VARIABLE}"
                    )
                self.folder.chmod(0o711)  # PostgreSQL runs as ``nobody`` under root, and must pass through
                (self.folder / MARKER).touch()
        except OSError as error:
            raise UsageError(
                f"{self.folder} cannot be made: {error.strerror}; name another with {FOLDER_VARIABLE}"
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / MARKER).open("r+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PermanentError(
                    f"another start or stop is at work in {self.folder}: wait for it, and try again"
                ) from None
            yield


def usual_folder(environment: Mapping[str, str] = os.environ, root: Path | None = None) -> Path:
    """``.cache/services`` of the checkout: the folder, or a link to it."""
    return (root or checkout() or cache_dir(environment)) / ".cache" / "services"


def services_folder(environment: Mapping[str, str] = os.environ, root: Path | None = None) -> Path:
    """Where the data of `make services` is: ``$CROSSLINE_SERVICES``, else ``.cache/services`` of the checkout.

    Where we are root and others cannot pass through to that, as below a home of root, PostgreSQL could not: then it is
    a folder in /var/tmp. ``.cache/services`` is always a way to it, so that paths in pipelines hold. Raises UsageError
    where something else has that name.
    """
    usual = usual_folder(environment, root)
    usual.parent.mkdir(parents=True, exist_ok=True)
    if given := environment.get(FOLDER_VARIABLE):
        target = Path(given).expanduser().resolve()
    elif usual.is_symlink():
        target = usual.readlink()
    elif (who := identity()) is None or can_enter(who, usual.parent):
        return usual
    else:
        named = hashlib.sha256(str(usual).encode()).hexdigest()[:12]
        target = Path("/var/tmp") / f"crossline-services-{named}"  # noqa: S108 - looked at before it is used
    if target != usual and not (usual.is_symlink() and usual.readlink() == target):
        if usual.exists() and not usual.is_symlink():
            raise UsageError(f"data of services lies in {usual} already: move it to {target}, or remove it")
        usual.unlink(missing_ok=True)
        usual.symlink_to(target)
    return target
