"""The search for the parameters of a merging rule, on validation images."""
