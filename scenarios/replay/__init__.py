"""A recording streamed to a served model, frame by frame, and its answers scored while they come."""
