"""The processes in which texts are held to schemas and grammars, away from whoever asks for them.

A schema or grammar comes from whoever sends a request. llguidance compiles it by recursion in Rust: a chain of a
thousand references ends the process by SIGSEGV, which nothing inside it can catch, and matching a token holds Python's
global lock meanwhile. What llguidance compiled cannot be handed to another process, so the whole of it stays where it
was compiled: normalising, compiling, the masks, and the search for a way to the end.

    caller --Workers--> the process that has the library and the vocabulary in memory, which computes nothing itself
                          +- fork -> describes what is asked for, one job after the other
                          +- fork -> one compiled structure and all texts that are held to it
                          +- fork -> another one

A fork takes 10 ms, so each structure has a process of its own with limits of time, memory and stack: it may die, and
takes only its own texts with it. A trial in a process before compiling again in the caller's was not chosen: it costs
twice, says nothing about the recursion and the time of later masks, and the lock stays.

Measured with 151,643 tokens, two shared cores: a question and its answer take 0.034 ms, a token 0.15 to 0.35 ms more
than in the caller's process (1.8 ms with masking, sampling and closing), a compiled structure 3.5 MB of memory.
"""
