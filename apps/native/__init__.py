"""C++ side of an Android app: a CMake project around the engine's and kernels' sources, and their JNI functions."""
