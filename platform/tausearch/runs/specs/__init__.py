"""The specifications of runs: what searches and final runs share, each of both, and what makes two different."""
