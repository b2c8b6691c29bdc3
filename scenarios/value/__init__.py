"""Value of prediction at the end of a run: users are handed over, or beams are chosen, on the answers of models."""
