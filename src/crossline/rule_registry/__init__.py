"""Where rule versions live."""
