// The CPUs that this process stays on.
#pragma once

#include <cstdint>
#include <vector>

namespace edgec::runner {

// Keep this thread, and all that it starts later, on these CPUs; empty leaves it. Throws std::runtime_error.
void stay_on(const std::vector<int64_t>& cpus);

}  // namespace edgec::runner
