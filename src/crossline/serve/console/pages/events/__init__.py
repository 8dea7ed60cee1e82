"""What happens, to the browser."""
