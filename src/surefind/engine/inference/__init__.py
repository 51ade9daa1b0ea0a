"""Runs ONNX models on the CPU: sentence encoders and cross-encoders from a model folder."""
