"""Models of images and audio: families, their inputs, and how these are prepared."""
