"""What prediction is worth at the end of a run: somebody acts on what the trained models say."""
