"""One HTML page of runs and campaigns, with interactive plots."""
