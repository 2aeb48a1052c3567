"""onnxruntime-genai: one ONNX model of varying lengths, whose keys and values grow from call to call."""
