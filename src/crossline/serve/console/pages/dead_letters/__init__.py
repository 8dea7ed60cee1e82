"""What could not be read, and can it be sent again."""
