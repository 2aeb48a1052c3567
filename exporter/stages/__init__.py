"""What is done to a decoder, and to any other module, between capture and bundle."""
