"""The engine and the standalone runner in C++, and the Python that builds them, starts them and reads their output."""
