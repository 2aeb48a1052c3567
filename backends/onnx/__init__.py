"""ONNX: static methods of a decoder, or one function, for ONNX Runtime."""
