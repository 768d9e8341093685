"""The nine methods in their authors' code and in ours: same ViT, images, epochs and hyperparameters, three seeds."""
