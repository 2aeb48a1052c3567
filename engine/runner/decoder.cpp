#include "decoder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "options.h"

namespace edgec::runner {
namespace {

constexpr size_t kErrorLetters = 1024;
constexpr double kMsPerS = 1e3;
constexpr double kNsPerMs = 1e6;

double wall_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

double cpu_ms() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * kMsPerS + static_cast<double>(used.tv_nsec) / kNsPerMs;
}

int64_t top1(const float* row, int64_t size) {
  return std::max_element(row, row + size) - row;
}

// The logarithm of a token's probability, in float64.
double logprob(const float* row, int64_t size, int64_t token) {
  if (token < 0 || token >= size) {
    throw std::runtime_error("the token " + std::to_string(token) + " has no logit");
  }
  const float most = *std::max_element(row, row + size);
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += std::exp(static_cast<double>(row[i]) - most);
  return static_cast<double>(row[token]) - most - std::log(sum);
}

// A text while it is generated: constrained by a structure, or free where there is none.
class ConstrainedText {
 public:
  ConstrainedText(const EdgecStructure* structure, int64_t budget) : structure_(structure), text_(nullptr, edgec_text_close) {
    char error[kErrorLetters] = "";
    if (structure != nullptr) {
      text_.reset(edgec_text_open(structure, budget, error, sizeof error));
      if (text_ == nullptr) throw std::runtime_error(error);
    }
  }

  // The likeliest token that may come next; the text goes on with it.
  int64_t best(const float* logits, int64_t vocabulary) {
    if (text_ == nullptr) return top1(logits, vocabulary);
    char error[kErrorLetters] = "";
    masked_.assign(logits, logits + vocabulary);
    if (edgec_text_mask(text_.get(), masked_.data(), masked_.size(), error, sizeof error) != EDGEC_OK) {
      throw std::runtime_error(error);
    }
    const int64_t token = top1(masked_.data(), vocabulary);
    if (edgec_text_take(text_.get(), token, error, sizeof error) != EDGEC_OK) throw std::runtime_error(error);
    return token;
  }

  bool ended() const { return text_ != nullptr && edgec_text_state(text_.get()) == EDGEC_TEXT_ENDED; }

  // What the tokens write, where that is a whole text.
  std::string text(const std::vector<int64_t>& tokens) const {
    std::string out;
    for (size_t i = 0; edgec_text_state(text_.get()) != EDGEC_TEXT_OPEN && i < tokens.size(); ++i) {
      const char* bytes = nullptr;
      const size_t size = edgec_structure_token(structure_, tokens[i], &bytes);
      out.append(size > 0 ? bytes : "", size);
    }
    return out;
  }

  std::string finish(const std::vector<int64_t>& tokens) const {
    if (text_ == nullptr) return "";
    const char* bytes = nullptr;
    const bool by_eos = ended() && edgec_structure_token(structure_, tokens.back(), &bytes) == 0;
    const bool whole = edgec_text_state(text_.get()) != EDGEC_TEXT_OPEN;
    return by_eos ? "eos" : whole ? "complete" : "length";
  }

 private:
  const EdgecStructure* structure_;
  std::unique_ptr<EdgecText, decltype(&edgec_text_close)> text_;
  std::vector<float> masked_;
};

bool are_logits(const EdgecTensor& output, size_t rows) {
  constexpr int32_t kFloat32 = 6;
  return output.dtype == kFloat32 && output.rank == 3 && output.sizes[0] == 1 &&
         output.sizes[1] == static_cast<int64_t>(rows) && output.sizes[2] > 0;
}

void write_rows(const float* logits, int64_t count, std::FILE* file) {
  const auto values = static_cast<size_t>(count);
  if (file != nullptr && std::fwrite(logits, sizeof(float), values, file) != values) {
    throw std::runtime_error("the logits could not be written");
  }
}

}  // namespace

Decoder::Decoder(EdgecModel* model, int64_t context, bool profile) : model_(model), context_(context) {
  char error[kErrorLetters] = "";
  session_ = edgec_session_open(model, profile ? 1 : 0, error, sizeof error);
  if (session_ == nullptr) {
    throw std::runtime_error(error);
  }
  edgec_model_info(model, &info_);
}

Decoder::~Decoder() {
  edgec_session_close(session_);
}

void Decoder::use_adapter(const std::string& path, const std::string& base) {
  char error[kErrorLetters] = "";
  EdgecAdapter* adapter = edgec_adapter_read(model_, path.c_str(), base.c_str(), error, sizeof error);
  const bool used =
      adapter != nullptr && edgec_session_adapter(session_, adapter, error, sizeof error) == EDGEC_OK;
  edgec_adapter_close(adapter);  // The session keeps it.
  if (!used) {
    throw std::runtime_error(error);
  }
}

Decoder::Logits Decoder::forward(
    const int64_t* tokens, int64_t count, int64_t start, const std::vector<int64_t>& rows) {
  char error[kErrorLetters] = "";
  std::vector<int64_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), start);
  const int status = edgec_session_forward(
      session_, tokens, positions.data(), positions.size(), rows.data(), rows.size(), error, sizeof error);
  EdgecTensor logits{};
  if (status != EDGEC_OK) {
    throw std::runtime_error(error);
  }
  if (edgec_session_output(session_, 0, &logits) != EDGEC_OK || !are_logits(logits, rows.size())) {
    throw std::runtime_error("the method's first output is not float32 [1, rows, vocabulary]");
  }
  return {static_cast<const float*>(logits.data), logits.sizes[2]};
}

void Decoder::check_context(int64_t end) const {
  if (context_ > 0 && end > context_) {
    throw std::runtime_error(
        std::to_string(end) + " tokens do not fit into the context of " + std::to_string(context_));
  }
}

void Decoder::place(const std::vector<int64_t>& prompt) {
  if (images_ != nullptr) images_->place(session_, prompt);
}

Decoder::Logits Decoder::prefill(const int64_t* prompt, int64_t length) {
  Logits logits{};
  for (int64_t start = 0, size = 0; start < length; start += size) {
    size = edgec_session_call_size(session_, start, length);
    logits = forward(prompt + start, size, start, {size - 1});
  }
  return logits;
}

Generated Decoder::generate(const std::vector<int64_t>& prompt, int64_t count, const EdgecStructure* structure) {
  if (prompt.empty() || count < 1) {
    throw std::runtime_error("generating needs a prompt and at least one new token");
  }
  const auto length = static_cast<int64_t>(prompt.size());
  if (count > kMostTokens - length) {
    throw std::runtime_error(std::to_string(count) + " tokens are more than any context has");
  }
  check_context(length + count - 1);
  Generated result;
  ConstrainedText constrained(structure, count);
  const double cpu_before = cpu_ms();
  double before = wall_ms();
  place(prompt);
  const Logits first = prefill(prompt.data(), length);
  result.tokens.push_back(constrained.best(first.data, first.vocabulary));
  result.ttft_ms = wall_ms() - before;
  for (int64_t position = length; position < length + count - 1 && !constrained.ended(); ++position) {
    before = wall_ms();
    const Logits logits = forward(&result.tokens.back(), 1, position, {0});
    result.tokens.push_back(constrained.best(logits.data, logits.vocabulary));
    result.token_ms.push_back(wall_ms() - before);
  }
  result.text = constrained.text(result.tokens);
  result.finish = constrained.finish(result.tokens);
  result.cpu_ms = cpu_ms() - cpu_before;
  return result;
}

Scored Decoder::score(const std::vector<int64_t>& tokens, std::FILE* logits) {
  const auto length = static_cast<int64_t>(tokens.size());
  check_context(length);
  place(tokens);
  const int64_t step = std::min(info_.max_tokens, info_.max_rows);
  Scored result;
  for (int64_t start = 0; start < length; start += step) {
    std::vector<int64_t> rows(static_cast<size_t>(std::min(step, length - start)));
    std::iota(rows.begin(), rows.end(), 0);
    const Logits out = forward(tokens.data() + start, static_cast<int64_t>(rows.size()), start, rows);
    for (const int64_t row : rows) {
      const float* numbers = out.data + row * out.vocabulary;
      result.likeliest.push_back(top1(numbers, out.vocabulary));
      const int64_t next = start + row + 1;
      if (next < length) result.logprobs.push_back(logprob(numbers, out.vocabulary, tokens[static_cast<size_t>(next)]));
    }
    write_rows(out.data, static_cast<int64_t>(rows.size()) * out.vocabulary, logits);
  }
  return result;
}

std::vector<int64_t> Decoder::replay(const std::vector<int64_t>& tokens, int64_t count, std::FILE* logits) {
  const auto length = static_cast<int64_t>(tokens.size());
  check_context(length);
  if (count < 1 || count > length) {
    throw std::runtime_error("a replay's prompt has 1 to all of its tokens");
  }
  place({tokens.begin(), tokens.begin() + count});
  std::vector<int64_t> likeliest;
  for (int64_t fed = count; fed <= length; ++fed) {
    const Logits out = fed == count ? prefill(tokens.data(), count) : forward(&tokens[fed - 1], 1, fed - 1, {0});
    likeliest.push_back(top1(out.data, out.vocabulary));
    write_rows(out.data, out.vocabulary, logits);
  }
  return likeliest;
}

std::vector<int64_t> Decoder::feed(
    const std::vector<int64_t>& tokens, const std::vector<FedCall>& calls, std::FILE* logits) {
  const auto length = static_cast<int64_t>(tokens.size());
  check_context(length);
  place(tokens);
  std::vector<int64_t> likeliest;
  for (const FedCall& call : calls) {
    if (call.size < 1 || call.size > length || call.start > length - call.size || call.rows < 1 ||
        call.rows > call.size) {
      throw std::runtime_error("a call lies outside the tokens, or its rows outside the call");
    }
    std::vector<int64_t> rows(static_cast<size_t>(call.rows));
    std::iota(rows.begin(), rows.end(), call.size - call.rows);
    const Logits out = forward(tokens.data() + call.start, call.size, call.start, rows);
    for (int64_t row = 0; row < call.rows; ++row) {
      likeliest.push_back(top1(out.data + row * out.vocabulary, out.vocabulary));
    }
    write_rows(out.data, call.rows * out.vocabulary, logits);
  }
  return likeliest;
}

std::string Decoder::profile() {
  const char* text = edgec_session_profile(session_);
  const std::string copy = text == nullptr ? "" : text;
  edgec_session_profile_reset(session_);
  return copy;
}

}  // namespace edgec::runner
