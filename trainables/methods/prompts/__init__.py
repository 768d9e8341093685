"""Methods that keep the ViT frozen and train prompts: L2P, CODA-Prompt and APT.

Not here: the ViT that takes inserted tokens, prefixes and masks (`backbones.token_vit`).
"""
