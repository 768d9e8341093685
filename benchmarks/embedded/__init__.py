"""What the embedded benchmarks and the small ViT that they run on are worth."""
