// Which kernels this processor can execute, and which of them is in force.
#include <array>
#include <cstdlib>
#include <cstring>

#include "kernel.h"
#include "plain.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include "kernels/apple_system.h"
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

namespace edgec::linear {

#if defined(__x86_64__)
extern const Kernel kAvx2, kAvxVnni, kAvx512Vnni;
constexpr Layout kOwnLayout = Layout::kRows16;
#elif defined(__aarch64__)
extern const Kernel kDotprod, kI8mm;
constexpr Layout kOwnLayout = Layout::kRows8;
#else
constexpr Layout kOwnLayout = Layout::kRows16;
#endif

namespace {

constexpr Kernel kPlain = {"plain", kOwnLayout, false, quantize_plainly, multiply_plainly, multiply_floats_plainly};

#if defined(__aarch64__)
struct Features {
  bool dotprod;
  bool i8mm;
};

#if defined(__APPLE__)
Features features() {
  return {system_number("hw.optional.arm.FEAT_DotProd") != 0, system_number("hw.optional.arm.FEAT_I8MM") != 0};
}
#else
// Bits of AT_HWCAP and AT_HWCAP2 (Linux, arch/arm64/include/uapi/asm/hwcap.h).
Features features() { return {(getauxval(AT_HWCAP) >> 20 & 1) != 0, (getauxval(AT_HWCAP2) >> 13 & 1) != 0}; }
#endif
#endif

#if defined(__x86_64__)
// Bits of EAX in leaf 7, subleaf 1 (Intel's manual); clang 17 knows no name for the first.
constexpr int kAvxVnniBit = 4, kAvx512Bf16Bit = 5;
bool has_bit(int bit) {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> bit & 1) != 0;
}
#endif

struct Choice {
  std::array<const Kernel*, 4> kernels{};
  int count = 0;

  void add(bool can, const Kernel& kernel) {
    if (can) kernels[count++] = &kernel;
  }
};

Choice choose() {
  Choice choice;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  choice.add(avx2 && avx512 && __builtin_cpu_supports("avx512vnni"), kAvx512Vnni);
#if defined(EDGEC_AVX_VNNI_BY_AVX512)
  choice.add(avx2 && avx512 && __builtin_cpu_supports("avx512vnni"), kAvxVnni);
#else
  choice.add(avx2 && has_bit(kAvxVnniBit), kAvxVnni);
#endif
  choice.add(avx2, kAvx2);
#elif defined(__aarch64__)
  const Features has = features();
  choice.add(has.dotprod && has.i8mm, kI8mm);
  choice.add(has.dotprod, kDotprod);
#endif
  choice.add(true, kPlain);
  return choice;
}

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

Kernels available_kernels() {
  return {choice().kernels.data(), choice().count};
}

const Kernel* kernel_named(const char* name) {
  for (int i = 0; i < choice().count; i++) {
    if (std::strcmp(choice().kernels[i]->name, name) == 0) return choice().kernels[i];
  }
  return nullptr;
}

// Zen 4, by its features: there a token of 4 bits takes its bytes at 30.6 GB/s, with prefetches at 25.9. Without them, Zen 3
// reads 0.8 times as fast, and Zen 5 0.6 to 0.8 times.
bool foresees_reading() {
#if defined(__x86_64__)
  static const bool zen4 = has_bit(kAvx512Bf16Bit) && !has_bit(kAvxVnniBit);
  return zen4;
#else
  return false;
#endif
}

const char* kernel_asked_for() {
  const char* asked = std::getenv("EDGEC_ISA");
  return asked == nullptr || *asked == 0 ? nullptr : asked;
}

const Kernel& kernel_in_force() {
  static const Kernel& kernel = []() -> const Kernel& {
    const char* asked = kernel_asked_for();
    const Kernel* wanted = asked == nullptr ? nullptr : kernel_named(asked);
    return wanted == nullptr ? *choice().kernels[0] : *wanted;
  }();
  return kernel;
}

}  // namespace edgec::linear
