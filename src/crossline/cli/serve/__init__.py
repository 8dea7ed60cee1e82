"""``crossline serve``: the decision API, its keys and its audit log."""
