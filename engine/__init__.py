"""edgec's engine in C++: kernels, core, runner, vision and audio; ``compile`` builds it."""
