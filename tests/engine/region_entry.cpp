// Whether a region's text is read: for tests through ctypes, with memory of a size that the test chooses.
#include <vector>

#include "kernels/region/region_text.h"

// Returns the number of steps, or -1 where the text is refused. Every key but "missing" leads to so many bytes.
extern "C" __attribute__((visibility("default"))) int test_read_region(const char* text, int64_t length,
                                                                       int64_t bytes) {
  std::vector<float> memory(static_cast<size_t>(bytes / 4 + 1));
  const auto* data = reinterpret_cast<const uint8_t*>(memory.data());
  const edgec::FetchData fetch = [&](std::string_view key, int64_t wanted) {
    return key == "missing" || wanted > bytes ? nullptr : data;
  };
  edgec::Region region;
  const bool read = edgec::read_region({text, static_cast<size_t>(length)}, fetch, region);
  return read ? static_cast<int>(region.steps.size()) : -1;
}
