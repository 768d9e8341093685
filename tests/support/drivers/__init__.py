"""Searches and campaigns that tests drive, watch and kill, and the services that they need."""
