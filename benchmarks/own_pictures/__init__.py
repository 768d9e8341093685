"""What a search buys on few pictures of one's own, and the tables of two pages that say so."""
