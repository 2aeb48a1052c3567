// Of Apple's header of this name, what the engine calls; apple_entry.cpp answers.
#pragma once
#include <cstddef>

extern "C" int sysctlbyname(const char* name, void* value, size_t* bytes, void* fresh, size_t fresh_bytes);
