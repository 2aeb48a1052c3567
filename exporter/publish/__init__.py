"""Publishing a bundle on the Hugging Face hub: its model card, and the push."""
