// The memory that this process occupies, as the kernel counts it.
#pragma once

#include <cstdint>

namespace edgec::runner {

// Highest resident size so far, in bytes; -1 where the kernel does not say.
int64_t peak_rss_bytes();
// Resident size now, in bytes; -1 where the kernel does not say.
int64_t rss_bytes();
// Memory of this process alone that no file backs, in bytes; -1 where the kernel does not say.
int64_t anonymous_bytes();

}  // namespace edgec::runner
