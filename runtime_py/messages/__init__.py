"""What an assistant's message is made of: reasoning, the answer, and calls of tools, told apart as it is written."""
