"""Other ways to do what crossline does, as an expert of each would, to be measured in turns with it."""
