// The share of a file in the page cache, and how to change it, for cold and warm loads.
#pragma once

#include <string>

namespace edgec::runner {

// Ask the kernel to forget a file's pages; needs no privileges. Nothing happens where the file cannot be opened.
void drop_pages(const std::string& path);
// Read a file once.
void fill_pages(const std::string& path);
// Share of a file's pages in memory, 0..1; -1 where that is unavailable.
double resident_share(const std::string& path);

}  // namespace edgec::runner
