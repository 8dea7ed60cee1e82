"""What a person prefers."""
