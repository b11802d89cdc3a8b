"""Measurements in a real browser, which are no suites: each is a script of its own."""
