"""Files of vectors: found by suffix, read and written chunk by chunk."""
