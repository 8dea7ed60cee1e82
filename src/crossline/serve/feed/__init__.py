"""What each batch gave, followed by the decision API: the pipeline's own answers, revisions and events."""
