"""Speed and memory, measured the same way for everything: ``python -m benchmarks [suite …] [--quick]``."""
