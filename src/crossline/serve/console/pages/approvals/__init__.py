"""What one is asked to sign, and where its proof is."""
