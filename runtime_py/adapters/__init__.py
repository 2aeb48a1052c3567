"""LoRA adapters: made of PEFT's folders for a bundle, and added to its matrices while it runs."""
