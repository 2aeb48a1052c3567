"""The engine and the standalone runner in C++: how they are built, started and answered."""
