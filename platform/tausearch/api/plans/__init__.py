"""Check a request before any work starts, and plan the run."""
