"""What rules see of one key as of an instant: figures, told without a record."""
