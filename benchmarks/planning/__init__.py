"""A campaign on more GPUs than are at hand: simulated from measured durations, for docs/explanation/scale.md."""
