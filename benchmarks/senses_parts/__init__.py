"""The comparison of Vision, audio and encoders with other runtimes: what `benchmarks.senses` consists of."""
