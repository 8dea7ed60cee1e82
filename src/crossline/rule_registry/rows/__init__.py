"""Tables whose rows come from topics: what came of their messages, kept for restarts and replays."""
