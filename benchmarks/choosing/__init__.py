"""What choosing well is worth: searches replayed on recorded tables of configurations, and what they choose tested."""
