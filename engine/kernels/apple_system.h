// What the kernel of macOS and iOS says of this machine, by the names that `sysctl -a` lists.
#pragma once

#if defined(__APPLE__)
#include <sys/sysctl.h>

#include <cstddef>
#include <string>

namespace edgec {

// A number; 0 where this system does not know the name.
inline int system_number(const char* name) {
  int value = 0;
  size_t bytes = sizeof(value);
  return sysctlbyname(name, &value, &bytes, nullptr, 0) == 0 ? value : 0;
}

// A text, which ends at its first zero; empty where this system does not know the name.
inline std::string system_text(const char* name) {
  size_t bytes = 0;
  if (sysctlbyname(name, nullptr, &bytes, nullptr, 0) != 0) return "";
  std::string text(bytes, '\0');
  if (sysctlbyname(name, text.data(), &bytes, nullptr, 0) != 0) return "";
  return text.c_str();
}

}  // namespace edgec
#endif
