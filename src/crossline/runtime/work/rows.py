"""What comes of a batch, as rows."""

from __future__ import annotations

Rows = list[tuple[str, bytes]]  # kind and body
StageRows = list[tuple[int, int, str, bytes]]  # stage and shard that it is for, kind and body
