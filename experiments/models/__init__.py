"""Reference models of the papers, small and readable."""
