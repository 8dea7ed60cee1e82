"""The pane kernel: long windows from aggregates of panes, and records only for as long as late ones may come."""
