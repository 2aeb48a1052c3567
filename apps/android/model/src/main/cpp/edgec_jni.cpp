// The functions of NativeEngine.kt over the engine's C interface. A handle is the address of an Opened, of a structure or of
// a text; Kotlin passes only handles that were given and have not been closed, one call at a time.
#include "edgec_decoder_jni.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using edgec::jni::Failed;
using edgec::jni::Opened;
using edgec::jni::checked;
using edgec::jni::guarded;
using edgec::jni::numbers;
using edgec::jni::opened;
using edgec::jni::text;

namespace {

constexpr int32_t kFloat32 = 6;

struct CloseAdapter {
  void operator()(EdgecAdapter* adapter) const { edgec_adapter_close(adapter); }
};

EdgecText* begun(jlong handle) {
  if (handle == 0) throw Failed{"the text is closed"};
  return reinterpret_cast<EdgecText*>(handle);
}

// The logits of the last token.
jfloatArray logits(JNIEnv* env, EdgecSession* session) {
  EdgecTensor output{};
  if (edgec_session_output(session, 0, &output) != EDGEC_OK) throw Failed{"the method has no output"};
  if (output.dtype != kFloat32 || output.rank < 1) throw Failed{"the method's output is not float32"};
  int64_t count = 1;
  for (int32_t dim = 0; dim < output.rank; ++dim) count *= output.sizes[dim];
  const auto length = static_cast<jsize>(count);
  const jfloatArray array = env->NewFloatArray(length);
  if (array != nullptr) env->SetFloatArrayRegion(array, 0, length, static_cast<const jfloat*>(output.data));
  return array;
}

}  // namespace

// Opens an artifact and a session of its method.
EDGEC_JNI(jlong, open)(JNIEnv* env, jobject, jbyteArray artifact, jbyteArray method) {
  return guarded(env, [&]() -> jlong {
    const std::string path = text(env, artifact), name = text(env, method);
    edgec_register_standard_operators();
    auto made = std::make_unique<Opened>();
    made->model.reset(checked([&](char* error, size_t capacity) {
      return edgec_model_open(path.c_str(), name.c_str(), nullptr, error, capacity);
    }));
    made->session.reset(checked([&](char* error, size_t capacity) {
      return edgec_session_open(made->model.get(), 0, error, capacity);
    }));
    return reinterpret_cast<jlong>(made.release());
  });
}

// Feeds tokens at the positions from `start` on; returns the logits of the last one.
EDGEC_JNI(jfloatArray, forward)(JNIEnv* env, jobject, jlong handle, jlongArray tokens, jlong start) {
  return guarded(env, [&]() -> jfloatArray {
    EdgecSession* session = opened(handle).session.get();
    if (start < 0 || start > INT32_MAX) throw Failed{"the position lies outside the context"};
    const std::vector<int64_t> ids = numbers(env, tokens);
    std::vector<int64_t> positions(ids.size());
    for (size_t index = 0; index < ids.size(); ++index) positions[index] = start + static_cast<int64_t>(index);
    const auto last = static_cast<int64_t>(ids.size()) - 1;
    checked([&](char* error, size_t capacity) {
      return edgec_session_forward(session, ids.data(), positions.data(), ids.size(), &last, 1, error, capacity);
    });
    return logits(env, session);
  });
}

// The session's state (KV cache) as a buffer over its memory, until the model is closed; null where it has none.
EDGEC_JNI(jobject, state)(JNIEnv* env, jobject, jlong handle) {
  return guarded(env, [&]() -> jobject {
    size_t bytes = 0;
    void* state = edgec_session_state(opened(handle).session.get(), &bytes);
    return state == nullptr ? nullptr : env->NewDirectByteBuffer(state, static_cast<jlong>(bytes));
  });
}

// Empties the session's state.
EDGEC_JNI(void, reset)(JNIEnv* env, jobject, jlong handle) {
  guarded(env, [&] {
    size_t bytes = 0;
    void* state = edgec_session_state(opened(handle).session.get(), &bytes);
    if (state != nullptr) std::memset(state, 0, bytes);
  });
}

// Gives the session the adapter in a file, made for the artifact with the sha256 `base`, or none where `file` is null.
EDGEC_JNI(void, useAdapter)(JNIEnv* env, jobject, jlong handle, jbyteArray file, jbyteArray base) {
  guarded(env, [&] {
    const Opened& to = opened(handle);
    std::unique_ptr<EdgecAdapter, CloseAdapter> adapter;  // the session keeps it
    if (file != nullptr) {
      const std::string path = text(env, file), sha256 = text(env, base);
      adapter.reset(checked([&](char* error, size_t capacity) {
        return edgec_adapter_read(to.model.get(), path.c_str(), sha256.c_str(), error, capacity);
      }));
    }
    checked([&](char* error, size_t capacity) {
      return edgec_session_adapter(to.session.get(), adapter.get(), error, capacity);
    });
  });
}

EDGEC_JNI(void, close)(JNIEnv*, jobject, jlong handle) {
  delete reinterpret_cast<Opened*>(handle);
}

// Opens a compiled schema with the bytes of the tokens.
EDGEC_JNI(jlong, openSchema)(JNIEnv* env, jobject, jbyteArray grammar, jbyteArray vocabulary) {
  return guarded(env, [&]() -> jlong {
    const std::string path = text(env, grammar), tokens = text(env, vocabulary);
    return reinterpret_cast<jlong>(checked([&](char* error, size_t capacity) {
      return edgec_structure_open(path.c_str(), tokens.c_str(), error, capacity);
    }));
  });
}

// Begins a text of at most `budget` tokens that is held to a schema.
EDGEC_JNI(jlong, beginText)(JNIEnv* env, jobject, jlong schema, jint budget) {
  return guarded(env, [&]() -> jlong {
    return reinterpret_cast<jlong>(checked([&](char* error, size_t capacity) {
      return edgec_text_open(reinterpret_cast<const EdgecStructure*>(schema), budget, error, capacity);
    }));
  });
}

// Sets the logits of tokens that may not come next to -infinity.
EDGEC_JNI(void, maskLogits)(JNIEnv* env, jobject, jlong handle, jfloatArray array) {
  guarded(env, [&] {
    EdgecText* held = begun(handle);
    if (array == nullptr) throw Failed{"the logits are null"};
    const jsize count = env->GetArrayLength(array);
    std::vector<jfloat> values(static_cast<size_t>(count));
    env->GetFloatArrayRegion(array, 0, count, values.data());
    checked([&](char* error, size_t capacity) {
      return edgec_text_mask(held, values.data(), values.size(), error, capacity);
    });
    env->SetFloatArrayRegion(array, 0, count, values.data());
  });
}

// Moves a text on by a token; returns its EdgecTextState.
EDGEC_JNI(jint, takeToken)(JNIEnv* env, jobject, jlong handle, jint token) {
  return guarded(env, [&]() -> jint {
    EdgecText* held = begun(handle);
    checked([&](char* error, size_t capacity) { return edgec_text_take(held, token, error, capacity); });
    return edgec_text_state(held);
  });
}

EDGEC_JNI(void, closeText)(JNIEnv*, jobject, jlong handle) {
  edgec_text_close(reinterpret_cast<EdgecText*>(handle));
}

EDGEC_JNI(void, closeSchema)(JNIEnv*, jobject, jlong handle) {
  edgec_structure_close(reinterpret_cast<EdgecStructure*>(handle));
}
