"""Methods that train the whole ViT and one classifier on one task after the other.

They are finetune, EWC, LwF-MC and DER++. Not here: the loop of optimiser steps (`methods.training`).
"""
