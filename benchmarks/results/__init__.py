"""The tables of `docs/explanation/results*.md`, made from the runs of a campaign: `make results`."""
