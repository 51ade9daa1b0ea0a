"""ONNX models on the CPU: a model folder, sentence encoders, cross-encoders."""
