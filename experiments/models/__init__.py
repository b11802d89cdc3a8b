"""Reference models for the experiments: small, readable, no part of the library."""
