// The CPUs that this process may use.
#pragma once

#include <cstdint>
#include <vector>

namespace edgec::runner {

// Keep this thread, and all that it starts later, on these CPUs; empty leaves it. Throws std::runtime_error.
void stay_on(const std::vector<int64_t>& cpus);
// The CPUs allowed now, ascending; empty where the system does not say.
std::vector<int64_t> allowed_cpus();

}  // namespace edgec::runner
