// What the JNI functions of an app share: names, checked calls into the engine, failures as Kotlin's exceptions.
#pragma once

#include <jni.h>

#include <algorithm>
#include <exception>
#include <string>

#include "edgec/engine.h"

#if !defined(EDGEC_JNI_PREFIX) || !defined(EDGEC_JNI_FAILURE)
#error "the build states the class of the functions and of their exception"
#endif
#define EDGEC_JOIN(prefix, name) prefix##name
#define EDGEC_JOINED(prefix, name) EDGEC_JOIN(prefix, name)
#define EDGEC_JNI(type, name) extern "C" JNIEXPORT type JNICALL EDGEC_JOINED(EDGEC_JNI_PREFIX, name)

extern "C" void edgec_register_standard_operators();

namespace edgec::jni {

constexpr size_t kErrorBytes = 512;

// A failure, and the class of Kotlin's exception for it, among those of the same package as EDGEC_JNI_FAILURE.
struct Failed {
  std::string why;
  std::string kind = EDGEC_JNI_FAILURE;
};

inline bool succeeded(int status) {
  return status == EDGEC_OK;
}
inline bool succeeded(const void* handle) {
  return handle != nullptr;
}

// The result of a call into the engine, which fills `error` when it fails.
template <typename Call>
auto checked(const Call& call) {
  char error[kErrorBytes] = "";
  const auto result = call(error, sizeof error);
  if (!succeeded(result)) throw Failed{error};
  return result;
}

// Texts of a broken artifact may hold any bytes; Java takes modified UTF-8 only.
inline void raise(JNIEnv* env, Failed failed) {
  const auto odd = [](unsigned char letter) { return letter < ' ' || letter > '~'; };
  std::replace_if(failed.why.begin(), failed.why.end(), odd, '?');
  const jclass failure = env->FindClass(failed.kind.c_str());
  if (failure != nullptr) env->ThrowNew(failure, failed.why.c_str());
}

// Run `body`; an exception becomes one of Kotlin, and the result 0.
template <typename Body>
auto guarded(JNIEnv* env, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Failed& failed) {
    raise(env, failed);
  } catch (const std::exception& error) {
    raise(env, {error.what()});
  }
  return decltype(body())();
}

// Bytes of UTF-8 from Kotlin; JNI's own strings are not UTF-8.
inline std::string text(JNIEnv* env, jbyteArray bytes) {
  if (bytes == nullptr) throw Failed{"a name is null"};
  std::string copy(static_cast<size_t>(env->GetArrayLength(bytes)), '\0');
  env->GetByteArrayRegion(bytes, 0, static_cast<jsize>(copy.size()), reinterpret_cast<jbyte*>(copy.data()));
  return copy;
}

}  // namespace edgec::jni
