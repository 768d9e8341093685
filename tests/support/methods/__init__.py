"""Methods that only the tests have, and a benchmark on which every method runs in a fraction of a second."""
