// The characters beyond ASCII that names in Python may hold, but for those that it writes otherwise (NFKC).
#pragma once

#include <cstdint>

namespace edgec::text {

bool is_name_character(uint32_t character);

}  // namespace edgec::text
