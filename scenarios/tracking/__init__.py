"""Trackers of experiments that follow a run: TensorBoard, Weights & Biases, MLflow; nothing leaves the machine."""
