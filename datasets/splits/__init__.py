"""Who owns which samples, and which of them are held out."""
