"""The world that sensors and radio share."""
