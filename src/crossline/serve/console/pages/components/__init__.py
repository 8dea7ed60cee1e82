"""All components of the console."""
