// A decoder that Kotlin has opened, by its handle: NativeEngine.kt has its own functions, NativeVision.kt those of images.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "edgec_jni.h"

namespace edgec::jni {

struct CloseModel {
  void operator()(EdgecModel* model) const { edgec_model_close(model); }
};
struct CloseSession {
  void operator()(EdgecSession* session) const { edgec_session_close(session); }
};

// A model with its only session, which is closed first.
struct Opened {
  std::unique_ptr<EdgecModel, CloseModel> model;
  std::unique_ptr<EdgecSession, CloseSession> session;
};

inline Opened& opened(jlong handle) {
  if (handle == 0) throw Failed{"the model is closed"};
  return *reinterpret_cast<Opened*>(handle);
}

inline std::vector<int64_t> numbers(JNIEnv* env, jlongArray array) {
  if (array == nullptr) throw Failed{"the numbers are null"};
  std::vector<jlong> copy(static_cast<size_t>(env->GetArrayLength(array)));
  env->GetLongArrayRegion(array, 0, static_cast<jsize>(copy.size()), copy.data());
  return {copy.begin(), copy.end()};
}

}  // namespace edgec::jni
