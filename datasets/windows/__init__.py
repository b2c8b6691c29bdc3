"""What a base station has sensed, cut into training samples."""
