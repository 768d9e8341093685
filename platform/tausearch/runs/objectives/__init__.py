"""What a search aims at: its objectives, the front of its trials, and the trial that it prefers."""
