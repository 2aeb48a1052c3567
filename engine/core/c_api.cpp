#include "edgec/engine.h"

#include <executorch/runtime/kernel/operator_registry.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "border.h"
#include "checked_adapter.h"
#include "failure.h"
#include "guarded.h"
#include "instructions.h"
#include "model.h"
#include "kernels/linear/kernel.h"
#include "packed_file.h"
#include "runtime_log.h"
#include "session.h"
#include "step.h"
#include "threads.h"

using edgec::engine::Failure;
using edgec::engine::Model;
using edgec::engine::InputEmbeds;
using edgec::engine::Profile;
using edgec::engine::Session;
using edgec::engine::guarded;
using edgec::engine::integers;
using edgec::engine::is_digest;
using edgec::engine::require;
using edgec::engine::tell;

struct EdgecModel {
  Model model;
};

struct EdgecSession {
  std::unique_ptr<Session> session;
};

struct EdgecAdapter {
  const Model* model;
  std::shared_ptr<const edgec::Adapter> adapter;
  std::string digest;
};

int edgec_abi_version(void) {
  return EDGEC_ABI_VERSION;
}

const char* edgec_linear_kernel(void) {
  return edgec::linear::kernel_in_force().name;
}

const char* edgec_linear_kernels(void) {
  static const std::string names = edgec::engine::kernel_names();
  return names.c_str();
}

int edgec_threads(int threads) {
  edgec::engine::start_runtime();
  const edgec::engine::LogScope log;
  return edgec::engine::pool_threads(threads);
}

int edgec_has_operator(const char* name) {
  if (name == nullptr) {
    return 0;
  }
  edgec::engine::start_runtime();
  const auto kernels = executorch::runtime::get_registered_kernels();
  return std::any_of(kernels.begin(), kernels.end(), [name](const auto& kernel) {
    return std::strcmp(kernel.name_, name) == 0;
  });
}

int edgec_packed_path(const char* folder, const char* digest, char* path, size_t capacity) {
  std::string packed;
  const auto name = [&] {
    require(folder, "the folder");
    require(digest, "the digest");
    require(path, "the path");
    packed = is_digest(digest) ? edgec::engine::packed_path(folder, digest) : "";
  };
  if (guarded(name, nullptr, 0) != EDGEC_OK || packed.empty() || packed.size() >= capacity) {
    return -1;
  }
  tell(packed.c_str(), path, capacity);
  return static_cast<int>(packed.size());
}

EdgecModel* edgec_model_open(
    const char* artifact, const char* method, const char* packed_path, char* error, size_t capacity) {
  EdgecModel* model = nullptr;
  const auto open = [&] {
    require(artifact, "the artifact's path");
    require(method, "the method's name");
    model = new EdgecModel{Model(artifact, method, packed_path == nullptr ? "" : packed_path)};
  };
  guarded(open, error, capacity);
  return model;
}

void edgec_model_close(EdgecModel* model) {
  delete model;
}

void edgec_model_info(const EdgecModel* model, EdgecModelInfo* info) {
  if (info != nullptr) {
    *info = model == nullptr ? EdgecModelInfo{} : model->model.info();
  }
}

EdgecSession* edgec_session_open(EdgecModel* model, int profile, char* error, size_t capacity) {
  EdgecSession* session = nullptr;
  const auto open = [&] {
    require(model, "the model");
    session = new EdgecSession{model->model.open_session(profile != 0)};
  };
  guarded(open, error, capacity);
  return session;
}

void edgec_session_close(EdgecSession* session) {
  if (session == nullptr) {
    return;
  }
  // Only zeroing its memory can fail here; then the session is not kept for reuse.
  guarded([&] { session->session->model().close_session(std::move(session->session)); }, nullptr, 0);
  delete session;
}

EdgecAdapter* edgec_adapter_open(
    EdgecModel* model, const EdgecLowRank* changes, size_t count, char* error, size_t capacity) {
  EdgecAdapter* adapter = nullptr;
  const auto open = [&] {
    require(model, "the model");
    require(changes, "the list of changes");
    adapter = new EdgecAdapter{&model->model, edgec::engine::checked_adapter(model->model.matrices(), changes, count), ""};
  };
  guarded(open, error, capacity);
  return adapter;
}

EdgecAdapter* edgec_adapter_read(
    EdgecModel* model, const char* path, const char* base, char* error, size_t capacity) {
  EdgecAdapter* adapter = nullptr;
  const auto read = [&] {
    require(model, "the model");
    require(path, "the adapter's path");
    require(base, "the artifact's sha256");
    const edgec::engine::AdapterFile file = edgec::engine::read_adapter_file(path);
    const auto changes = edgec::engine::changes_of(file, base);
    const Model& of = model->model;
    auto made = edgec::engine::checked_adapter(of.matrices(), changes.data(), changes.size());
    adapter = new EdgecAdapter{&of, std::move(made), file.digest};
  };
  guarded(read, error, capacity);
  return adapter;
}

const char* edgec_adapter_digest(const EdgecAdapter* adapter) {
  return adapter == nullptr ? "" : adapter->digest.c_str();
}

void edgec_adapter_close(EdgecAdapter* adapter) {
  delete adapter;
}

int edgec_session_adapter(EdgecSession* session, const EdgecAdapter* adapter, char* error, size_t capacity) {
  const auto give = [&] {
    require(session, "the session");
    if (adapter != nullptr && adapter->model != &session->session->model()) {
      throw Failure(EDGEC_REFUSED, "the adapter was opened for another model");
    }
    session->session->set_adapter(adapter == nullptr ? nullptr : adapter->adapter);
  };
  return guarded(give, error, capacity);
}

int edgec_session_run(EdgecSession* session, const EdgecTensor* inputs, size_t count, char* error, size_t capacity) {
  const auto run = [&] {
    require(session, "the session");
    require(count == 0 ? session : static_cast<const void*>(inputs), "the list of inputs");
    session->session->run(inputs, count);
  };
  return guarded(run, error, capacity);
}

int edgec_session_forward(
    EdgecSession* session, const int64_t* tokens, const int64_t* positions, size_t token_count, const int64_t* rows,
    size_t row_count, char* error, size_t capacity) {
  const auto forward = [&] {
    require(session, "the session");
    session->session->forward(
        integers(tokens, token_count, true), integers(positions, token_count, false), integers(rows, row_count, false));
  };
  return guarded(forward, error, capacity);
}

int64_t edgec_model_embeds_width(const EdgecModel* model) {
  return model == nullptr ? 0 : model->model.embeds_inputs().width;
}

int edgec_session_input_embeds(EdgecSession* session, const EdgecInputEmbeds* embeds, char* error, size_t capacity) {
  const auto put = [&] {
    require(session, "the session");
    InputEmbeds* own = session->session->input_embeds();
    if (own == nullptr) throw Failure(EDGEC_REFUSED, "the method reads no input embeds");
    if (embeds == nullptr) {
      own->forget();
    } else {
      own->put(*embeds);
    }
  };
  return guarded(put, error, capacity);
}

int64_t edgec_session_call_size(const EdgecSession* session, int64_t start, int64_t end) {
  if (session == nullptr || start < 0 || end <= start) return 0;
  const Session& asked = *session->session;
  const int64_t most = asked.model().shape().max_tokens;
  return asked.input_embeds() == nullptr ? std::min(most, end - start) : asked.input_embeds()->call_size(start, end, most);
}

int edgec_model_step(
    EdgecModel* model, const EdgecRun* runs, size_t run_count, const int64_t* tokens, const int64_t* positions,
    const int64_t* rows, char* error, size_t capacity) {
  const auto step = [&] {
    require(model, "the model");
    require(run_count == 0 ? nullptr : runs, "the list of runs");
    require(tokens, "the list of tokens");
    require(positions, "the list of positions");
    require(rows, "the list of rows");
    std::vector<edgec::engine::StepRun> all;
    for (size_t index = 0; index < run_count; ++index) {
      require(runs[index].session, "a run's session");
      all.push_back({runs[index].session->session.get(), runs[index].token_count, runs[index].row_count});
    }
    edgec::engine::run_together(model->model, all, {tokens, positions, rows});
  };
  return guarded(step, error, capacity);
}

size_t edgec_session_output_count(const EdgecSession* session) {
  return session == nullptr ? 0 : session->session->outputs().size();
}

int edgec_session_output(const EdgecSession* session, size_t index, EdgecTensor* output) {
  if (output == nullptr || index >= edgec_session_output_count(session)) {
    return EDGEC_REFUSED;
  }
  *output = session->session->outputs()[index];
  return EDGEC_OK;
}

void* edgec_session_state(EdgecSession* session, size_t* bytes) {
  if (bytes != nullptr) {
    *bytes = session == nullptr ? 0 : session->session->state().size();
  }
  return session == nullptr || bytes == nullptr ? nullptr : session->session->state().data();
}

const char* edgec_session_profile(EdgecSession* session) {
  const bool profiled = session != nullptr && session->session->profile() != nullptr;
  const auto tell_all = [&] { session->session->profile_text = session->session->profile()->json(); };
  return profiled && guarded(tell_all, nullptr, 0) == EDGEC_OK ? session->session->profile_text.c_str() : nullptr;
}

void edgec_session_profile_reset(EdgecSession* session) {
  if (session != nullptr && session->session->profile() != nullptr) {
    session->session->profile()->reset();
  }
}
