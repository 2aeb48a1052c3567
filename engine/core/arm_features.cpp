// Hides SME from XNNPACK: under emulation its SME kernels give other products than every other kernel, and no phone has
// shown them correct yet. EDGEC_SME=1 lets XNNPACK use them, so that they can be tried on a phone.
//
// XNNPACK learns of SME from cpuinfo while its library is being loaded, and cpuinfo from getauxval. In a program that
// is linked with this library, this definition comes before the C library's, so the bits are off before anybody looks.
// In a process that loads this library later (Python), the C library's comes first.
// An app for Android builds XNNPACK without SME instead.
#if defined(__linux__) && defined(__aarch64__) && !defined(__ANDROID__)

#include <elf.h>
#include <sys/auxv.h>

#include <cstdlib>
#include <cstring>

extern "C" unsigned long __getauxval(unsigned long type);

namespace {

// Bits 23..30 and 37..42 of AT_HWCAP2 (Linux, arch/arm64/include/uapi/asm/hwcap.h): SME, SME2 and their parts.
constexpr unsigned long kSme = 0xfful << 23 | 0x3ful << 37;

bool allowed() {
  const char* asked = std::getenv("EDGEC_SME");
  return asked != nullptr && std::strcmp(asked, "1") == 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) unsigned long getauxval(unsigned long type) noexcept {
  const unsigned long value = __getauxval(type);
  return type == AT_HWCAP2 && !allowed() ? value & ~kSme : value;
}

#endif
