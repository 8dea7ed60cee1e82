"""What all else stands on: errors, times, values, hashes, blobs."""
