"""Methods that keep the ViT frozen and train prompts: L2P, CODA-Prompt and APT."""
