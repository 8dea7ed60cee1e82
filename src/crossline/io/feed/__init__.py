"""What each delivered batch gave, as a file a batch, for the decision API."""
