"""Records in place of training: replays of a search, and tables of configurations that come with the tool."""
