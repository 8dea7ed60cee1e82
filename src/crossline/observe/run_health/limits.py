"""Default limits for figures without an objective: the thresholds of deploy/watch/alerts.yaml."""

from __future__ import annotations

BATCH_RUNNING_S = 120.0
SINK_BEHIND_S = 60.0
SINK_BACKLOG_S = 900.0
ALERT_LATENCY_S = 5.0
DEAD_SHARE = 0.01
LATE_SHARE = 0.01
