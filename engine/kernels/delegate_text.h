// The text that describes a delegate, one NAME=VALUE per line in a fixed order, and the matrix that it may name:
//
//     block_rows=16  rows=151936  width=1024  group=32  bits=4  step=1  offset=8  scales=bfloat16  data=KEY     one per line
#pragma once

#include <executorch/runtime/backend/interface.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "kernels/linear/matrix.h"

namespace edgec {

// Reads a text line by line.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  // The value of the next line, which must have this name; ok() turns false otherwise.
  std::string_view value(std::string_view name) {
    const std::string_view line = rest_.substr(0, rest_.find('\n'));
    rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
    ok_ = ok_ && line.size() > name.size() && line.substr(0, name.size()) == name && line[name.size()] == '=';
    return ok_ ? line.substr(name.size() + 1) : std::string_view();
  }

  int64_t number(std::string_view name, int64_t least = 1) {
    const std::string_view text = value(name);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    ok_ = ok_ && error == std::errc() && end == text.data() + text.size() && number >= least;
    return number;
  }

  bool ok() const { return ok_; }

  // Whether every line was as expected, and none is left.
  bool ended() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// Fetches named data that must have so many bytes.
inline executorch::runtime::Error fetch(const executorch::runtime::NamedDataMap& data, std::string_view key,
                                        int64_t bytes,
                                        std::optional<executorch::runtime::FreeableBuffer>& into) {
  using executorch::runtime::Error;
  auto buffer = data.get_data(key);
  if (!buffer.ok()) return buffer.error();
  if (static_cast<int64_t>(buffer->size()) < bytes) return Error::InvalidProgram;
  into.emplace(std::move(*buffer));
  return Error::Ok;
}

// Reads the lines of a matrix in the layout of the linear kernels, which are the text's last, and its bytes: as many as
// the lines say, so that lines of another matrix are refused.
inline executorch::runtime::Error read_matrix(const executorch::runtime::NamedDataMap& data, Lines& lines,
                                              linear::Matrix& matrix,
                                              std::optional<executorch::runtime::FreeableBuffer>& bytes) {
  using executorch::runtime::Error;
  const auto small = [&](std::string_view name, int64_t least) {
    return static_cast<int>(std::min<int64_t>(lines.number(name, least), INT32_MAX));
  };
  matrix.layout = static_cast<linear::Layout>(small("block_rows", 1));
  matrix.rows = lines.number("rows");
  matrix.width = lines.number("width");
  matrix.group = lines.number("group", 0);
  matrix.bits = small("bits", 1);
  matrix.step = small("step", 1);
  matrix.offset = small("offset", 0);
  matrix.scales = linear::scales_named(lines.value("scales"));
  const std::string_view key = lines.value("data");
  if (!lines.ended() || !linear::is_matrix(matrix)) return Error::DelegateInvalidCompatibility;
  const Error error = fetch(data, key, matrix.bytes(), bytes);
  if (error != Error::Ok) return error;
  if (static_cast<int64_t>(bytes->size()) != matrix.bytes()) return Error::InvalidProgram;
  matrix.data = static_cast<const uint8_t*>(bytes->data());
  return Error::Ok;
}

}  // namespace edgec
