"""The science: what one trial computes. Knows nothing of the platform; only `trial` knows Ray."""
