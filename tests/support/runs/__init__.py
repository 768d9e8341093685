"""Runs that tests read: made by hand, finished by training, and damaged."""
