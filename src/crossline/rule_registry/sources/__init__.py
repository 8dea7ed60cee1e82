"""Where publications come from: a folder, or a topic; and what a version needs before it is effective."""
