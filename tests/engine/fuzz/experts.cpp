// Opens and runs the delegate of experts whose text may lie, by the backend's own interface.
//
//     experts TEXT BYTES              says whether the text with so many bytes of data is "run" or "refused"
//     experts TEXT BYTES SEED ROUNDS  damages text, data and tensors each time; prints how many were run and refused
//
// Data and tensors have exactly their size, so that a sanitizer sees every byte beyond it.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "damage.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;
using executorch::runtime::TensorLayout;

// Those of the text that the test writes.
constexpr int kTokens = 5, kChoices = 2, kExperts = 3, kRows = 28, kWidth = 96;

// One matrix under the name "key".
class Data final : public NamedDataMap {
 public:
  Data(size_t bytes, Random& random) : bytes_(bytes), data_(new uint8_t[bytes]) {
    for (size_t i = 0; i < bytes; i++) data_[i] = static_cast<uint8_t>(random());
  }
  Result<const TensorLayout> get_tensor_layout(std::string_view) const override { return Error::NotFound; }
  Result<FreeableBuffer> get_data(std::string_view key) const override {
    if (key != "key") return Error::NotFound;
    return FreeableBuffer(data_.get(), bytes_, nullptr);
  }
  Error load_data_into(std::string_view, void*, size_t) const override { return Error::NotSupported; }
  Result<uint32_t> get_num_keys() const override { return uint32_t{1}; }
  Result<const char*> get_key(uint32_t) const override { return "key"; }

 private:
  size_t bytes_;
  std::unique_ptr<uint8_t[]> data_;
};

// A tensor in memory of its own.
template <typename T, ScalarType kType>
struct Owned {
  std::vector<SizesType> sizes;
  std::vector<uint8_t> order{0, 1, 2};
  std::vector<SizesType> strides;
  std::unique_ptr<T[]> data;
  TensorImpl impl;
  Tensor tensor;
  EValue value;

  explicit Owned(std::vector<SizesType> shape)
      : sizes(std::move(shape)),
        strides(strides_of(sizes)),
        data(new T[static_cast<size_t>(count())]()),
        impl(kType, static_cast<ssize_t>(sizes.size()), sizes.data(), data.get(), order.data(), strides.data(),
             executorch::aten::TensorShapeDynamism::DYNAMIC_BOUND),
        tensor(&impl),
        value(tensor) {}

  static std::vector<SizesType> strides_of(const std::vector<SizesType>& sizes) {
    std::vector<SizesType> strides(sizes.size(), 1);
    for (size_t i = sizes.size() - 1; i > 0; i--) strides[i - 1] = strides[i] * sizes[i];
    return strides;
  }
  int64_t count() const { return strides[0] * sizes[0]; }
};
using Floats = Owned<float, ScalarType::Float>;
using Indices = Owned<int64_t, ScalarType::Long>;

// What the graph hands to its delegate; where it is damaged, of other sizes now and then.
struct Call {
  Floats x, bias, out;
  Indices index;
  std::vector<EValue*> args;

  Call(Random& random, bool damage)
      : x({some(kTokens), static_cast<SizesType>(damage ? 1 + random() % kChoices : 1), size(kWidth, random, damage)}),
        bias({size(kExperts, random, damage), size(kRows, random, damage)}),
        out({kTokens, kChoices, size(kRows, random, damage)}),
        index({size(kTokens, random, damage), kChoices}) {
    for (int64_t i = 0; i < x.count(); i++) x.data[i] = static_cast<float>(random() % 2000) / 1000.0f - 1.0f;
    for (int64_t i = 0; i < index.count(); i++) index.data[i] = static_cast<int64_t>(random() % (kExperts + 2)) - 1;
    if (damage && random() % 8 == 0) index.data[0] = random() % 2 ? INT64_MAX : INT64_MIN;
    args = {&x.value, &index.value, &out.value};
    if (damage && random() % 2) args.insert(args.begin() + 2, &bias.value);
  }

  static SizesType some(SizesType size) { return size; }
  static SizesType size(SizesType right, Random& random, bool damage) {
    return damage && random() % 12 == 0 ? static_cast<SizesType>(1 + random() % (2 * right)) : right;
  }
};

bool run(std::string text, size_t bytes, Random& random, bool damage) {
  executorch::runtime::BackendInterface* backend = executorch::runtime::get_backend_class("EdgecExperts");
  if (backend == nullptr) std::abort();
  const Data data(bytes, random);
  MemoryAllocator allocator(0, nullptr);
  BackendInitContext context(&allocator, nullptr, "forward", &data);
  // The text, too, has exactly its size.
  const std::unique_ptr<char[]> blob(new char[text.size()]);
  text.copy(blob.get(), text.size());
  FreeableBuffer processed(blob.get(), text.size(), nullptr);
  const auto handle = backend->init(context, &processed, {});
  if (!handle.ok()) return false;
  Call call(random, damage);
  BackendExecutionContext execution;
  const Error error = backend->execute(execution, *handle, {call.args.data(), call.args.size()});
  backend->destroy(*handle);
  return error == Error::Ok;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3 && count != 5) return 2;
  executorch::runtime::runtime_init();
  std::ifstream file(words[1], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = static_cast<size_t>(std::atoll(words[2]));
  Random random(count == 5 ? static_cast<unsigned>(std::atoi(words[3])) : 0);
  if (count == 3) {
    std::puts(run(text, bytes, random, false) ? "run" : "refused");
    return 0;
  }
  int ran = 0, refused = 0;
  for (int round = std::atoi(words[4]); round > 0; round--) {
    const size_t given = random() % 8 == 0 ? below(random, 2 * bytes) : bytes;
    (run(damaged(text, random), given, random, true) ? ran : refused) += 1;
  }
  std::printf("experts: %d run, %d refused\n", ran, refused);
  return 0;
}
