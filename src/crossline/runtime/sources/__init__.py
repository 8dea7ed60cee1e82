"""Where records come from: each source as Spark sees it, and as the tasks read it."""
