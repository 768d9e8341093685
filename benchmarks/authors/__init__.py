"""The same configurations in the authors' public code (mammoth) and in ours; needs a checkout of theirs."""
