"""Health: how each rule does, and what calls for a person."""
