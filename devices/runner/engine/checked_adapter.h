// An adapter made from what a caller of the C interface passes, once all of it fits the model.
#pragma once

#include <cstddef>
#include <memory>

#include "c_api.h"
#include "region/adapter.h"

namespace edgec::engine {

// Throws Failure (EDGEC_REFUSED) unless every change has numbers, a rank, and the key and size of another one of the
// matrices.
std::shared_ptr<const Adapter> checked_adapter(const MatrixSizes& matrices, const EdgecLowRank* changes, size_t count);

}  // namespace edgec::engine
