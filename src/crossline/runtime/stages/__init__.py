"""What a batch goes through, whatever runs it."""
