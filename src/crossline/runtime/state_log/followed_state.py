"""The state of all shards of a pipeline, as of its last batch, kept by who only reads: nothing is written or dropped.

The pipeline goes on meanwhile: it merges segments and drops those that no window needs. So a listing may be old when it
is used. What cannot be read is listed again; where a batch is gone, the state begins anew from what the log has now.
"""

from __future__ import annotations

from collections.abc import Sequence

from crossline.basics.errors import StateError
from crossline.evaluate.shard import ShardState, forget_unplanned
from crossline.evaluate.state_log import Foresight, apply_delta
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log.log_folders import begin_with_backfill, by_batch, depth_folder
from crossline.runtime.state_log.state_log import StateLog

TRIES = 3  # listings of the log before it is read anew from its beginning


class FollowedState:
    """The states of the depths that records are judged at, each of all shards in one.

    The keys of shards are disjoint, so a record is judged by the state of all as it is by that of its shard; to judge
    it once, instead of once for each shard, takes a part of the time.

    ``batch``: the last one that is in it; -1: none. ``anew``: how often it was read from the beginning.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self.states: dict[int, ShardState] = {}
        self._at: dict[int, int] = {}
        self._snapshot: PlanSnapshot | None = None
        self.batch = -1
        self.anew = 0

    def advance(self, snapshot: PlanSnapshot, batch: int) -> None:
        """Read on to the end of ``batch``, by ``snapshot``, which is that of this batch or of a later one.

        Raises:
            StateError: the log has a gap, which reading it from its beginning does not mend.
        """
        for left in reversed(range(TRIES + 1)):
            try:
                self._advance(snapshot, batch)
            except (StateError, FileNotFoundError):
                if not left:
                    self._begin()
                    raise
                if left <= 1:
                    self._begin()
                    self.anew += 1
            else:
                return

    def _begin(self) -> None:
        self.states, self._at, self._snapshot, self.batch = {}, {}, None, -1

    def _advance(self, snapshot: PlanSnapshot, batch: int) -> None:
        for depth in range(1, snapshot.depth + 1):
            self._read(snapshot, depth, batch)
            state = self.states[depth]
            self._fill(
                snapshot,
                depth,
                state,
                [lp.state_store.name for plan in snapshot.plans_at(depth) for lp in plan.state_stores],
            )
            if snapshot is not self._snapshot:
                forget_unplanned(snapshot.plans_at(depth), state)
        self._snapshot, self.batch = snapshot, batch

    def _read(self, snapshot: PlanSnapshot, depth: int, batch: int) -> None:
        """The batches of a depth that are not there yet; what was read stays, should the next one not be readable."""
        logs = [StateLog(depth_folder(self._root, depth), shard) for shard in range(snapshot.shards)]
        state = self.states.get(depth)
        if state is None:
            state = self.states[depth] = snapshot.new_state()
        after = self._at.get(depth, -1)
        there = [each for log in logs for each in log.segments() if each.first <= batch] if after < 0 else []
        if after < 0 and not there:
            return  # a depth that no batch was judged at yet
        foresight = Foresight(sum(each.bytes for each in there))
        for meta, arrays in by_batch(logs, after, batch):
            self._fill(snapshot, depth, state, [item["state_store"] for item in meta["state_stores"]])
            apply_delta(snapshot.kept_at(depth), state, meta, arrays, snapshot.bounds)
            self._at[depth] = int(meta["batch"])
            foresight.applied(state, arrays)

    def _fill(self, snapshot: PlanSnapshot, depth: int, state: ShardState, state_stores: Sequence[str]) -> None:
        begin_with_backfill(self._root, depth, range(snapshot.shards), snapshot, state, state_stores)
