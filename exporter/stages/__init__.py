"""The stages between capture and bundle, for decoders and for any other module."""
