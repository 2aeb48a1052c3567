// The functions of NativeEngine.kt over the engine's C interface of audio. A handle is the address of a OpenedAudio; Kotlin
// passes only handles that were given and have not been closed, one call at a time.
#include "edgec_jni.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "edgec/audio.h"

using edgec::jni::Failed;
using edgec::jni::checked;
using edgec::jni::guarded;
using edgec::jni::text;

namespace {

struct CloseAudio {
  void operator()(EdgecAudio* audio) const { edgec_audio_close(audio); }
};

// A bundle with the last segment that it gave.
struct OpenedAudio {
  std::unique_ptr<EdgecAudio, CloseAudio> audio;
  EdgecSegment segment{};
};

OpenedAudio& opened(jlong handle) {
  if (handle == 0) throw Failed{"the model is closed"};
  return *reinterpret_cast<OpenedAudio*>(handle);
}

// The name of Kotlin's exception for a sound that is refused, or null for other failures.
const char* refusal(int status) {
  switch (status) {
    case EDGEC_SOUND_UNREADABLE: return "SoundUnreadable";
    case EDGEC_SOUND_EMPTY: return "SoundEmpty";
    case EDGEC_SOUND_TOO_LONG: return "SoundTooLong";
    case EDGEC_SOUND_RATE: return "SoundRateDiffers";
    case EDGEC_SOUND_NOT_FINITE: return "SoundNotFinite";
    case EDGEC_LANGUAGE_UNKNOWN: return "LanguageUnknown";
    case EDGEC_AUDIO_OPTION: return "TranscriptionRefused";
    default: return nullptr;
  }
}

// Throws where a status is not EDGEC_OK.
void check(int status, const char* error) {
  if (status == EDGEC_OK) return;
  const std::string other = EDGEC_JNI_FAILURE;
  const char* name = refusal(status);
  throw Failed{error, name == nullptr ? other : other.substr(0, other.rfind('/') + 1) + name};
}

// What is asked of a sound, with the texts that it points to.
struct Asked {
  std::string language, task;
  EdgecAudioOptions options{};

  Asked(JNIEnv* env, jbyteArray spoken, jbyteArray wanted, jint timestamps, jint most)
      : language(spoken == nullptr ? "" : text(env, spoken)), task(text(env, wanted)) {
    options = {spoken == nullptr ? nullptr : language.c_str(), task.c_str(), timestamps, most};
  }
};

}  // namespace

// Opens a bundle's folder with its artifact.
EDGEC_JNI(jlong, open)(JNIEnv* env, jobject, jbyteArray bundle, jbyteArray artifact) {
  return guarded(env, [&]() -> jlong {
    const std::string folder = text(env, bundle), path = text(env, artifact);
    edgec_register_standard_operators();
    auto made = std::make_unique<OpenedAudio>();
    made->audio.reset(checked([&](char* error, size_t capacity) {
      return edgec_audio_open(folder.c_str(), path.c_str(), error, capacity);
    }));
    return reinterpret_cast<jlong>(made.release());
  });
}

// Begins a sound of samples in -1..1.
EDGEC_JNI(void, begin)(
    JNIEnv* env, jobject, jlong handle, jfloatArray samples, jint rate, jbyteArray language, jbyteArray task,
    jint timestamps, jint most) {
  guarded(env, [&] {
    EdgecAudio* audio = opened(handle).audio.get();
    if (samples == nullptr) throw Failed{"the samples are null"};
    const Asked asked(env, language, task, timestamps, most);
    const jsize count = env->GetArrayLength(samples);
    char error[edgec::jni::kErrorBytes] = "";
    // The engine copies them, and calls nothing of Java's.
    void* values = env->GetPrimitiveArrayCritical(samples, nullptr);
    if (values == nullptr) throw Failed{"there is no memory for the samples"};
    const int status = edgec_audio_begin(
        audio, static_cast<const float*>(values), count, rate, &asked.options, error, sizeof error);
    env->ReleasePrimitiveArrayCritical(samples, values, JNI_ABORT);
    check(status, error);
  });
}

// Begins the sound in a WAV file.
EDGEC_JNI(void, beginFile)(
    JNIEnv* env, jobject, jlong handle, jbyteArray path, jbyteArray language, jbyteArray task, jint timestamps,
    jint most) {
  guarded(env, [&] {
    EdgecAudio* audio = opened(handle).audio.get();
    const std::string file = text(env, path);
    const Asked asked(env, language, task, timestamps, most);
    char error[edgec::jni::kErrorBytes] = "";
    const int status = edgec_audio_begin_file(audio, file.c_str(), &asked.options, error, sizeof error);
    check(status, error);
  });
}

// Does the next step; returns its EdgecAudioProgress.
EDGEC_JNI(jint, step)(JNIEnv* env, jobject, jlong handle) {
  return guarded(env, [&]() -> jint {
    OpenedAudio& with = opened(handle);
    int32_t progress = EDGEC_AUDIO_DONE;
    checked([&](char* error, size_t capacity) {
      return edgec_audio_step(with.audio.get(), &progress, &with.segment, error, capacity);
    });
    return progress;
  });
}

// The tokens of the segment that the last step gave.
EDGEC_JNI(jlongArray, tokens)(JNIEnv* env, jobject, jlong handle) {
  return guarded(env, [&]() -> jlongArray {
    const EdgecSegment& segment = opened(handle).segment;
    const auto count = static_cast<jsize>(segment.token_count);
    const std::vector<jlong> copy(segment.tokens, segment.tokens + segment.token_count);
    const jlongArray array = env->NewLongArray(count);
    if (array != nullptr) env->SetLongArrayRegion(array, 0, count, copy.data());
    return array;
  });
}

// Start and end of that segment in seconds; then the sound's length, and the wall times in ms of features, encoder and
// decoder; then the first timestamp's id, or -1.
EDGEC_JNI(jdoubleArray, times)(JNIEnv* env, jobject, jlong handle) {
  return guarded(env, [&]() -> jdoubleArray {
    const OpenedAudio& with = opened(handle);
    EdgecAudioSummary all{};
    edgec_audio_summary(with.audio.get(), &all);
    const jdouble values[] = {with.segment.start_s, with.segment.end_s, all.sound_s, all.features_ms,
                              all.encode_ms,        all.write_ms,       static_cast<jdouble>(all.first_timestamp)};
    constexpr auto kCount = static_cast<jsize>(sizeof values / sizeof *values);
    const jdoubleArray array = env->NewDoubleArray(kCount);
    if (array != nullptr) env->SetDoubleArrayRegion(array, 0, kCount, values);
    return array;
  });
}

// The token of the sound's language in UTF-8; empty where there is none.
EDGEC_JNI(jbyteArray, language)(JNIEnv* env, jobject, jlong handle) {
  return guarded(env, [&]() -> jbyteArray {
    EdgecAudioSummary all{};
    edgec_audio_summary(opened(handle).audio.get(), &all);
    const std::string name = all.language;
    const auto count = static_cast<jsize>(name.size());
    const jbyteArray array = env->NewByteArray(count);
    if (array != nullptr) env->SetByteArrayRegion(array, 0, count, reinterpret_cast<const jbyte*>(name.data()));
    return array;
  });
}

// Reads what the encoder reads, for golden vectors.
EDGEC_JNI(void, read)(JNIEnv* env, jobject, jlong handle, jfloatArray source) {
  guarded(env, [&] {
    EdgecAudio* audio = opened(handle).audio.get();
    if (source == nullptr) throw Failed{"the source is null"};
    std::vector<jfloat> values(static_cast<size_t>(env->GetArrayLength(source)));
    env->GetFloatArrayRegion(source, 0, static_cast<jsize>(values.size()), values.data());
    checked([&](char* error, size_t capacity) {
      return edgec_audio_read(audio, values.data(), values.size(), error, capacity);
    });
  });
}

// Feeds a token at a position; returns the logits after it.
EDGEC_JNI(jfloatArray, feed)(JNIEnv* env, jobject, jlong handle, jlong token, jlong position) {
  return guarded(env, [&]() -> jfloatArray {
    EdgecAudio* audio = opened(handle).audio.get();
    const int64_t fed = token;
    const float* logits = nullptr;
    size_t vocabulary = 0;
    checked([&](char* error, size_t capacity) {
      return edgec_audio_feed(audio, &fed, 1, position, &logits, &vocabulary, error, capacity);
    });
    const jfloatArray array = env->NewFloatArray(static_cast<jsize>(vocabulary));
    if (array != nullptr) env->SetFloatArrayRegion(array, 0, static_cast<jsize>(vocabulary), logits);
    return array;
  });
}

EDGEC_JNI(void, close)(JNIEnv*, jobject, jlong handle) {
  delete reinterpret_cast<OpenedAudio*>(handle);
}
