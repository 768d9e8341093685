"""The tables of `docs/results.md`, made from the runs of a campaign: `make results`."""
