"""What a served prediction is good for: a user's link over time, and the rules that act on it."""
