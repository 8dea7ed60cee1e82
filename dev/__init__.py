"""What only tests, measurements and demonstrations need; no part of the wheel."""
