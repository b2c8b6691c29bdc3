"""Edge devices: profiles for simulated time, and the ONNX runtime that models are checked on."""
