"""What tasks must know: rules, lists, layout; how it changes, and where it is kept."""
