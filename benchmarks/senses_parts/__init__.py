"""The comparison of eyes, ears and encoders with other runtimes: what `benchmarks.senses` consists of."""
