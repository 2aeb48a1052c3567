// Distributions over a vocabulary: which tokens stay in it, and drawing one of them. The vocabulary is never sorted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgec::text {

// Softmax in float64; the sum is NumPy's, pairwise.
std::vector<double> probabilities(const std::vector<float>& scores);

// Mask everything below the k-th largest; 0 masks nothing.
void keep_top_k(std::vector<float>& scores, int64_t k);
// Mask all but the likeliest tokens that together reach `p`, of equals the earlier ones first; one always stays.
void keep_top_p(std::vector<float>& scores, double p);
// Mask tokens less likely than `share` times the likeliest one.
void keep_min_p(std::vector<float>& scores, double share);

// The token at `place` (0 up to 1) of the summed probabilities; one of probability 0 is never drawn.
int64_t draw(const std::vector<double>& likely, double place);

}  // namespace edgec::text
