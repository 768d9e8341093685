"""What a search buys on few pictures of one's own, and the tables of docs/how-to/few-images.md that say so."""
