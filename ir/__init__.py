"""The intermediate representation: programs, model specs, edgec's operators, stored forms of weights, and calls."""
