"""Maintenance of the lake's tables: compaction, expiry of snapshots and rows, removal of orphaned files."""
