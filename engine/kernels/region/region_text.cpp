#include "region_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

namespace edgec {
namespace {

constexpr int64_t kMostValues = 1024;
constexpr int64_t kMostSteps = 1024;
constexpr int64_t kMostMatrices = 64;
constexpr int64_t kMostWidth = 1 << 20;

template <typename T>
struct Named {
  std::string_view name;
  T value;
};

constexpr Named<Activation> kActivations[] = {
    {"none", Activation::kNone},        {"silu", Activation::kSilu},       {"gelu", Activation::kGelu},
    {"gelu_tanh", Activation::kGeluTanh}, {"sigmoid", Activation::kSigmoid}, {"tanh", Activation::kTanh},
    {"relu", Activation::kRelu},
};
constexpr Named<Epilogue> kEpilogues[] = {
    {"none", Epilogue::kNone}, {"add", Epilogue::kAdd}, {"gate", Epilogue::kGate}};
constexpr Named<linear::Inputs> kInputs[] = {{"int8", linear::Inputs::kInt8}, {"float32", linear::Inputs::kFloat32}};
constexpr Named<Arithmetic> kArithmetic[] = {
    {"add", Arithmetic::kAdd}, {"sub", Arithmetic::kSubtract}, {"mul", Arithmetic::kMultiply}};

// The words of a text; every mistake turns ok() false, after which all words are empty.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  // Begin the next line and return its first word.
  std::string_view line() {
    require(line_.empty());
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(rest_.size(), end + 1));
    return word();
  }

  std::string_view word() {
    const std::string_view word = line_.substr(0, line_.find(' '));
    line_.remove_prefix(std::min(line_.size(), word.size() + 1));
    require(!word.empty());
    return ok_ ? word : std::string_view();
  }

  bool more() const { return ok_ && !line_.empty(); }
  bool finished() const { return ok_ && line_.empty() && rest_.empty(); }

  void expect(std::string_view wanted, std::string_view word) { require(word == wanted); }

  int64_t number(int64_t least, int64_t most) {
    const std::string_view text = word();
    int64_t number = least;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    require(error == std::errc() && end == text.data() + text.size() && number >= least && number <= most);
    return ok_ ? number : least;
  }

  float fraction() {
    const std::string text(word());
    char* end = nullptr;
    const float number = std::strtof(text.c_str(), &end);
    require(*end == 0 && std::isfinite(number));
    return number;
  }

  template <typename T, size_t kCount>
  T one_of(const Named<T> (&choices)[kCount]) {
    const std::string_view text = word();
    const auto* choice = std::find_if(choices, choices + kCount, [&](const auto& c) { return c.name == text; });
    require(choice != choices + kCount);
    return ok_ ? choice->value : choices[0].value;
  }

  void require(bool condition) { ok_ = ok_ && condition; }
  bool ok() const { return ok_; }

 private:
  std::string_view rest_, line_;
  bool ok_ = true;
};

class Reader {
 public:
  Reader(std::string_view text, const FetchData& fetch, Region& region) : words_(text), fetch_(fetch), region_(region) {}

  bool read() {
    read_head();
    std::string_view kind;
    while (words_.ok() && (kind = words_.line()) != "end") {
      words_.require(static_cast<int64_t>(region_.steps.size()) < kMostSteps);
      read_step(kind);
    }
    for (const ValueIndex output : region_.outputs) words_.require(written_[output]);
    return words_.finished();
  }

 private:
  int64_t width(ValueIndex value) const { return region_.widths[value]; }

  void read_head() {
    words_.expect("edgec.linear", words_.line());
    words_.number(3, 3);
    words_.expect("block_rows", words_.line());
    const int64_t rows = words_.number(8, 16);
    words_.require(rows == 8 || rows == 16);
    layout_ = static_cast<linear::Layout>(rows);
    words_.expect("widths", words_.line());
    while (words_.more() && region_.widths.size() < kMostValues) region_.widths.push_back(words_.number(1, kMostWidth));
    if (region_.widths.empty()) region_.widths.push_back(1);  // Only where the line was wrong.
    written_.assign(region_.widths.size(), false);
    words_.expect("inputs", words_.line());
    region_.inputs = words_.number(1, static_cast<int64_t>(region_.widths.size()));
    std::fill_n(written_.begin(), region_.inputs, true);
    words_.expect("outputs", words_.line());
    while (words_.more()) read_output();
    words_.require(!region_.outputs.empty());
  }

  void read_output() {
    const auto value = static_cast<ValueIndex>(words_.number(region_.inputs, last_value()));
    words_.require(std::find(region_.outputs.begin(), region_.outputs.end(), value) == region_.outputs.end());
    region_.outputs.push_back(words_.ok() ? value : 0);
  }

  int64_t last_value() const { return static_cast<int64_t>(region_.widths.size()) - 1; }

  ValueIndex written() {
    const auto value = static_cast<ValueIndex>(words_.number(0, last_value()));
    words_.require(written_[value]);
    return value;
  }

  // The caller compares its width with what it is made from.
  ValueIndex fresh() {
    const auto value = static_cast<ValueIndex>(words_.number(0, last_value()));
    words_.require(!written_[value]);
    return value;
  }

  const uint8_t* data(int64_t bytes, bool optional, std::string* name = nullptr) {
    const std::string_view key = words_.word();
    if (name != nullptr) *name = key;
    if (!words_.ok() || (optional && key == "-")) return nullptr;
    const uint8_t* data = fetch_(key, bytes);
    words_.require(data != nullptr);
    return data;
  }

  const float* floats(int64_t count, bool optional) {
    return reinterpret_cast<const float*>(data(count * static_cast<int64_t>(sizeof(float)), optional));
  }

  void read_step(std::string_view kind) {
    if (kind == "norm") {
      read_norm();
    } else if (kind == "group") {
      read_group();
    } else if (kind == "binary") {
      read_binary();
    } else if (kind == "constant") {
      read_constant();
    } else {
      words_.expect("function", kind);
      read_function();
    }
  }

  void read_norm() {
    Norm norm{};
    norm.out = fresh();
    norm.x = written();
    norm.eps = words_.fraction();
    words_.require(width(norm.out) == width(norm.x) && norm.eps >= 0.0f);
    norm.weight = floats(width(norm.out), true);
    keep(norm.out, norm);
  }

  void read_group() {
    Group group{};
    group.x = written();
    const int64_t count = words_.number(1, kMostMatrices);
    group.epilogue = words_.one_of(kEpilogues);
    group.other = written();
    group.activation = words_.one_of(kActivations);
    group.inputs = words_.one_of(kInputs);
    words_.require(group.epilogue == Epilogue::kNone || count == (group.epilogue == Epilogue::kGate ? 2 : 1));
    for (int64_t i = 0; i < count && words_.ok(); i++) read_matrix(group);
    if (!words_.ok()) return;
    const Product &first = group.products.front(), &last = group.products.back();
    words_.require(group.epilogue != Epilogue::kAdd || width(group.other) == first.matrix.rows);
    if (group.epilogue == Epilogue::kGate) {
      words_.require(first.out == last.out && first.matrix.rows == last.matrix.rows);
    }
    for (const Product& product : group.products) {
      words_.require(group.epilogue == Epilogue::kGate || !written_[product.out]);
      written_[product.out] = true;
    }
    region_.steps.emplace_back(std::move(group));
  }

  void read_matrix(Group& group) {
    words_.expect("matrix", words_.line());
    Product product{};
    product.out = fresh();
    linear::Matrix& matrix = product.matrix;
    matrix.layout = layout_;
    matrix.width = width(group.x);
    matrix.rows = words_.number(1, kMostWidth);
    matrix.group = words_.number(0, kMostWidth);
    matrix.bits = static_cast<int>(words_.number(2, 8));
    matrix.step = static_cast<int>(words_.number(1, 2));
    matrix.offset = static_cast<int>(words_.number(0, 128));
    matrix.scales = linear::scales_named(words_.word());
    words_.require(linear::is_matrix(matrix) && width(product.out) == matrix.rows);
    if (!words_.ok()) return;
    matrix.data = data(matrix.bytes(), false, &product.key);
    product.bias = floats(matrix.rows, true);
    group.products.push_back(product);
  }

  void read_binary() {
    Binary binary{};
    binary.arithmetic = words_.one_of(kArithmetic);
    binary.out = fresh();
    for (ValueIndex& x : binary.x) {
      x = written();
      words_.require(width(x) == width(binary.out));
    }
    keep(binary.out, binary);
  }

  void read_constant() {
    Constant constant{};
    constant.arithmetic = words_.one_of(kArithmetic);
    constant.out = fresh();
    constant.x = written();
    constant.count = words_.number(1, kMostWidth);
    words_.require(width(constant.x) == width(constant.out) && constant.arithmetic != Arithmetic::kSubtract);
    words_.require(constant.count == 1 || constant.count == width(constant.out));
    constant.values = floats(constant.count, false);
    keep(constant.out, constant);
  }

  void read_function() {
    Function function{};
    function.activation = words_.one_of(kActivations);
    function.out = fresh();
    function.x = written();
    words_.require(width(function.x) == width(function.out));
    keep(function.out, function);
  }

  void keep(ValueIndex out, const Step& step) {
    if (!words_.ok()) return;
    written_[out] = true;
    region_.steps.push_back(step);
  }

  Words words_;
  const FetchData& fetch_;
  Region& region_;
  linear::Layout layout_ = linear::Layout::kRows16;
  std::vector<bool> written_;
};

}  // namespace

bool read_region(std::string_view text, const FetchData& fetch, Region& region) {
  return Reader(text, fetch, region).read();
}

}  // namespace edgec
