"""A ViT linearised at its pre-trained weights: its features and outputs along task vectors, and their gradients.

Not here: what is learned with it (`methods.tmc`, `methods.tak`).
"""
