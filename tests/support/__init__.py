"""What tests of several rooms share: data sets to read, and what can be reached from an object."""
