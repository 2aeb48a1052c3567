// Calls of the C interface that no binding would make: null handles, unknown dtypes, impossible sizes, values out of
// range. Each must be refused, or do what it says.
//
//     calls ARTIFACT SEED COUNT          prints "calls N refused M"
//     calls ARTIFACT SEED overrun        a caller that lies about its buffer, for a sanitizer to notice
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "edgec/engine.h"

extern "C" void edgec_register_standard_operators();

namespace {

constexpr size_t kInputs = 3;
constexpr size_t kValues = 1 << 16;
const int64_t kSizes[] = {INT64_MIN, -1, 0, 1, 2, 8, 16, 17, 129, INT32_MAX, int64_t{1} << 32, INT64_MAX};
const int32_t kNumbers[] = {INT32_MIN, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 22, 23, 44, 45, 127, 128, 255, INT32_MAX};
const int64_t kValueKinds[] = {INT64_MIN, -1, 0, 1, 319, 320, 511, 512, INT32_MAX, int64_t{1} << 40, INT64_MAX};

class Fuzz {
 public:
  Fuzz(const char* artifact, uint64_t seed) : artifact_(artifact), random_(seed), values_(kInputs) {
    model_ = edgec_model_open(artifact, "forward", nullptr, error_, sizeof error_);
    session_ = edgec_session_open(model_, 0, error_, sizeof error_);
    second_ = edgec_session_open(model_, 0, error_, sizeof error_);
    if (session_ == nullptr || second_ == nullptr) {
      std::printf("%s\n", error_);
      std::exit(1);
    }
  }
  ~Fuzz() {
    edgec_session_close(second_);
    edgec_session_close(session_);
    edgec_model_close(model_);
  }

  // Whether the call was refused.
  bool once() {
    switch (random_() % 8) {
      case 0: return other();
      case 1: return lengths();
      case 2: return together();
      case 3: return adapters();
      default: return run();
    }
  }

  // An accepted call, after all that was refused.
  bool still_works() {
    const int64_t tokens[] = {1, 2, 3}, positions[] = {0, 1, 2}, rows[] = {2};
    EdgecTensor output{};
    return edgec_session_forward(session_, tokens, positions, 3, rows, 1, error_, sizeof error_) == EDGEC_OK &&
           edgec_session_output(session_, 0, &output) == EDGEC_OK && output.data != nullptr;
  }

  void overrun() {
    std::vector<int64_t> few(4, 1);
    EdgecTensor inputs[] = {tensor(few.data(), {1, 16}), tensor(few.data(), {16}), tensor(few.data(), {1})};
    edgec_session_run(session_, inputs, kInputs, error_, sizeof error_);
  }

 private:
  template <typename Number, size_t kCount>
  Number one_of(const Number (&numbers)[kCount]) {
    return numbers[random_() % kCount];
  }

  static EdgecTensor tensor(void* data, std::initializer_list<int64_t> sizes) {
    EdgecTensor made{data, 4, static_cast<int32_t>(sizes.size()), {}};
    std::copy(sizes.begin(), sizes.end(), made.sizes);
    return made;
  }

  // A well-formed call with one to three things changed.
  bool run() {
    for (auto& values : values_) {
      values.assign(kValues, 1);
    }
    const auto count = static_cast<int64_t>(random_() % 16 + 1);
    for (int64_t i = 0; i < count; ++i) {
      values_[1][i] = i;
    }
    values_[2][0] = 0;
    EdgecTensor inputs[kInputs + 2] = {
        tensor(values_[0].data(), {1, count}), tensor(values_[1].data(), {count}), tensor(values_[2].data(), {1}), {}, {}};
    size_t given = kInputs;
    for (uint64_t changes = random_() % 3 + 1; changes > 0; --changes) {
      change(inputs[random_() % kInputs], given);
    }
    const bool nobody = random_() % 64 == 0;
    return edgec_session_run(nobody ? nullptr : session_, random_() % 64 == 0 ? nullptr : inputs, given, error_,
                             random_() % sizeof error_) != EDGEC_OK;
  }

  void change(EdgecTensor& input, size_t& given) {
    switch (random_() % 6) {
      case 0: input.dtype = one_of(kNumbers); break;
      case 1: input.rank = one_of(kNumbers); break;
      case 2: input.sizes[random_() % EDGEC_MAX_RANK] = one_of(kSizes); break;
      case 3: input.data = random_() % 2 ? nullptr : input.data; break;
      case 4: given = random_() % (kInputs + 3); break;
      default: values_[random_() % kInputs][random_() % 16] = one_of(kValueKinds);
    }
  }

  bool lengths() {
    const int64_t number = one_of(kValueKinds);
    const auto count = static_cast<size_t>(one_of(kSizes)), rows = static_cast<size_t>(one_of(kSizes));
    for (auto& values : values_) {
      values.assign(kValues, number);
    }
    return edgec_session_forward(session_, random_() % 8 ? values_[0].data() : nullptr, values_[1].data(), count,
                                 values_[2].data(), rows, random_() % 2 ? error_ : nullptr, sizeof error_) != EDGEC_OK;
  }

  // A call for several sessions with any numbers of tokens and rows, some of them nobody's.
  bool together() {
    for (auto& values : values_) {
      values.assign(kValues, one_of(kValueKinds));
    }
    EdgecRun runs[3];
    for (EdgecRun& run : runs) {
      run = {random_() % 16 ? (random_() % 2 ? session_ : second_) : nullptr, one_of(kSizes), one_of(kSizes)};
    }
    const int64_t* rows = random_() % 16 ? values_[2].data() : nullptr;
    return edgec_model_step(random_() % 16 ? model_ : nullptr, random_() % 16 ? runs : nullptr, random_() % 4,
                            values_[0].data(), values_[1].data(), rows, error_, sizeof error_) != EDGEC_OK;
  }

  // Adapters without handles, keys, numbers or known matrices; one without changes is accepted.
  bool adapters() {
    const float numbers[] = {0, 0, 0, 0};
    const auto some = [&](const float* given) { return random_() % 4 ? given : nullptr; };
    const EdgecLowRank change{random_() % 4 ? "absent" : nullptr, some(numbers), some(numbers), one_of(kSizes),
                              one_of(kSizes), one_of(kSizes), one_of(kNumbers), one_of(kNumbers), 1.0f};
    EdgecAdapter* made = edgec_adapter_open(random_() % 8 ? model_ : nullptr, random_() % 8 ? &change : nullptr,
                                            random_() % 2, error_, random_() % sizeof error_);
    if (random_() % 8 == 0) {
      edgec_adapter_close(made);
      made = edgec_adapter_read(random_() % 8 ? model_ : nullptr, random_() % 4 ? artifact_ : nullptr,
                                random_() % 4 ? "0" : nullptr, error_, random_() % sizeof error_);
    }
    edgec_adapter_digest(made);
    const bool refused = made == nullptr || edgec_session_adapter(random_() % 8 ? session_ : nullptr, made, error_,
                                                                  sizeof error_) != EDGEC_OK;
    edgec_adapter_close(made);
    return refused;
  }

  std::string word() {
    std::string text(random_() % 300, ' ');
    for (char& letter : text) {
      letter = static_cast<char>(random_() % 255 + 1);
    }
    return text;
  }

  bool other() {
    const std::string text = word(), more = word();
    char path[64];
    size_t bytes = 0;
    EdgecTensor output{};
    EdgecModelInfo info{};
    switch (random_() % 12) {
      case 0: return edgec_has_operator(random_() % 2 ? text.c_str() : nullptr) == 0;
      case 1: return edgec_packed_path(text.c_str(), more.c_str(), path, random_() % sizeof path) < 0;
      case 2: return edgec_packed_path(random_() % 2 ? nullptr : "/", "abc", random_() % 2 ? nullptr : path, 9) < 0;
      case 3: return refused(edgec_model_open(random_() % 2 ? text.c_str() : nullptr, "forward", nullptr, error_, 9));
      case 4: return refused(edgec_model_open(artifact_, random_() % 2 ? text.c_str() : nullptr, nullptr, error_, 0));
      case 5: return edgec_session_open(nullptr, 1, error_, sizeof error_) == nullptr;
      case 6: return edgec_session_output(random_() % 2 ? session_ : nullptr, random_(), &output) != EDGEC_OK;
      case 7: return edgec_session_output(session_, 0, nullptr) != EDGEC_OK;
      case 8: return edgec_session_state(nullptr, &bytes) == nullptr && edgec_session_state(session_, nullptr) == nullptr;
      case 9: edgec_model_info(nullptr, &info); edgec_model_info(model_, nullptr); return info.max_tokens == 0;
      case 10: edgec_session_close(nullptr); edgec_model_close(nullptr); edgec_session_profile_reset(nullptr);
               return edgec_session_profile(nullptr) == nullptr && edgec_session_output_count(nullptr) == 0;
      default: return edgec_threads(-static_cast<int>(random_() % 9)) == edgec_threads(INT_MAX);
    }
  }

  bool refused(EdgecModel* model) {
    edgec_model_close(model);
    return model == nullptr;
  }

  const char* artifact_;
  std::mt19937_64 random_;
  std::vector<std::vector<int64_t>> values_;
  EdgecModel* model_ = nullptr;
  EdgecSession* session_ = nullptr;
  EdgecSession* second_ = nullptr;
  char error_[512] = "";
};

}  // namespace

int main(int, char** arguments) {
  edgec_register_standard_operators();
  edgec_threads(1);
  Fuzz fuzz(arguments[1], std::stoull(arguments[2]));
  if (std::strcmp(arguments[3], "overrun") == 0) {
    fuzz.overrun();
    return 0;
  }
  const uint64_t calls = std::stoull(arguments[3]);
  uint64_t refused = 0;
  for (uint64_t call = 0; call < calls; ++call) {
    refused += fuzz.once();
  }
  std::printf("calls %llu refused %llu\n", static_cast<unsigned long long>(calls), static_cast<unsigned long long>(refused));
  return fuzz.still_works() ? 0 : 1;
}
