"""From a trained client to ONNX, in float32 or in fewer bits."""
