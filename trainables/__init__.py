"""The science: the computation of one trial. It never imports the platform; only `trial` imports Ray."""
