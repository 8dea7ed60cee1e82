"""Code for tests, measurements and demonstrations only; not part of the wheel."""
