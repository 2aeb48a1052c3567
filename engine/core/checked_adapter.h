// An adapter made from what a caller of the C interface passes, once all of it fits the model.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "adapter_file.h"
#include "edgec/engine.h"
#include "kernels/region/adapter.h"

namespace edgec::engine {

// The changes of an adapter's file, whose bytes they read. Throws Failure (EDGEC_REFUSED) where the file belongs to
// another artifact than that of the sha256 `base`, or to none.
std::vector<EdgecLowRank> changes_of(const AdapterFile& file, const std::string& base);

// Throws Failure (EDGEC_REFUSED) unless every change has numbers of a known format, a rank, and the key and size of
// another one of the matrices.
std::shared_ptr<const Adapter> checked_adapter(const NotedMatrices& matrices, const EdgecLowRank* changes, size_t count);

}  // namespace edgec::engine
