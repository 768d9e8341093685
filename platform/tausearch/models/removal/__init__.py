"""Compositions without some classes: which to take out, what is measured, and what remains of them."""
