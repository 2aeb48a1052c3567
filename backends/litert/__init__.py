"""LiteRT and LiteRT-LM: decoders as ``.tflite`` and ``.litertlm``, their integers and scales edgec's own."""
