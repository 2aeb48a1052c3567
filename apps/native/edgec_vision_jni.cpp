// The functions of NativeVision.kt over the engine's C interface of vision. A handle is the address of an EdgecVision, and
// of an Opened for the decoder; Kotlin passes only handles that were given and have not been closed, one call at a time.
#include "edgec_decoder_jni.h"

#include <cstdint>
#include <string>
#include <vector>

#include "edgec/vision.h"

#if !defined(EDGEC_VISION_PREFIX)
#error "the build states the class of the functions"
#endif
#undef EDGEC_JNI
#define EDGEC_JNI(type, name) extern "C" JNIEXPORT type JNICALL EDGEC_JOINED(EDGEC_VISION_PREFIX, name)

using edgec::jni::Failed;
using edgec::jni::guarded;
using edgec::jni::numbers;
using edgec::jni::opened;
using edgec::jni::text;

namespace {

EdgecVision* vision(jlong handle) {
  if (handle == 0) throw Failed{"the model is closed"};
  return reinterpret_cast<EdgecVision*>(handle);
}

// The name of Kotlin's exception for an image or a prompt that is refused, or null for other failures.
const char* refusal(int status) {
  switch (status) {
    case EDGEC_IMAGE_SIZE: return "ImageTooLarge";
    case EDGEC_IMAGES_TOO_MANY: return "ImagesTooMany";
    case EDGEC_IMAGES_MISPLACED: return "ImagesMisplaced";
    case EDGEC_IMAGE_NEEDED: return "ImageNeeded";
    case EDGEC_SPAN_TOO_LONG: return "PromptNotWhole";
    default: return nullptr;
  }
}

// A call that gives a status, and fills a text where that is not EDGEC_OK.
template <typename Call>
void check(const Call& call) {
  char error[edgec::jni::kErrorBytes] = "";
  const int status = call(error, sizeof error);
  if (status == EDGEC_OK) return;
  const std::string other = EDGEC_JNI_FAILURE;
  const char* name = refusal(status);
  throw Failed{error, name == nullptr ? other : other.substr(0, other.rfind('/') + 1) + name};
}

}  // namespace

// Opens the vision of a bundle's folder with its artifact.
EDGEC_JNI(jlong, open)(JNIEnv* env, jobject, jbyteArray bundle, jbyteArray artifact) {
  return guarded(env, [&]() -> jlong {
    const std::string folder = text(env, bundle), path = text(env, artifact);
    EdgecVision* made = nullptr;
    check([&](char* error, size_t capacity) {
      int32_t status = EDGEC_FAILED;
      made = edgec_vision_open(folder.c_str(), path.c_str(), nullptr, &status, error, capacity);
      return made != nullptr ? static_cast<int32_t>(EDGEC_OK) : status == EDGEC_OK ? EDGEC_FAILED : status;
    });
    return reinterpret_cast<jlong>(made);
  });
}

// A prompt's whole text in UTF-8, for images of these widths and heights.
EDGEC_JNI(jbyteArray, prompt)(JNIEnv* env, jobject, jlong handle, jbyteArray asked, jlongArray sizes) {
  return guarded(env, [&]() -> jbyteArray {
    EdgecVision* with = vision(handle);
    const std::string given = text(env, asked);
    const std::vector<int64_t> edges = numbers(env, sizes);
    const char* written = nullptr;
    size_t bytes = 0;
    check([&](char* error, size_t capacity) {
      return edgec_vision_prompt(
          with, given.data(), given.size(), edges.data(), static_cast<int64_t>(edges.size() / 2), &written, &bytes,
          error, capacity);
    });
    const auto count = static_cast<jsize>(bytes);
    const jbyteArray array = env->NewByteArray(count);
    if (array != nullptr) env->SetByteArrayRegion(array, 0, count, reinterpret_cast<const jbyte*>(written));
    return array;
  });
}

// Begins a prompt of so many images.
EDGEC_JNI(void, begin)(JNIEnv* env, jobject, jlong handle, jint images) {
  guarded(env, [&] {
    EdgecVision* with = vision(handle);
    check([&](char* error, size_t capacity) { return edgec_vision_begin(with, images, error, capacity); });
  });
}

// Adds the next image, three bytes for each pixel.
EDGEC_JNI(void, add)(JNIEnv* env, jobject, jlong handle, jint width, jint height, jbyteArray rgb) {
  guarded(env, [&] {
    EdgecVision* with = vision(handle);
    if (rgb == nullptr || width < 0 || height < 0) throw Failed{"the image has no pixels"};
    if (env->GetArrayLength(rgb) / 3 < static_cast<int64_t>(width) * height) throw Failed{"the image lacks pixels"};
    // Preparing takes long, and a critical section would hold up Java's garbage collection: the bytes are copied.
    jbyte* pixels = env->GetByteArrayElements(rgb, nullptr);
    if (pixels == nullptr) throw Failed{"there is no memory for the image"};
    const EdgecImage image{reinterpret_cast<const uint8_t*>(pixels), width, height, 0, 3};
    try {
      check([&](char* error, size_t capacity) { return edgec_vision_add(with, &image, error, capacity); });
    } catch (...) {
      env->ReleaseByteArrayElements(rgb, pixels, JNI_ABORT);
      throw;
    }
    env->ReleaseByteArrayElements(rgb, pixels, JNI_ABORT);
  });
}

// Lets the image encoder read the next tile; returns how many wait after it.
EDGEC_JNI(jlong, step)(JNIEnv* env, jobject, jlong handle) {
  return guarded(env, [&]() -> jlong {
    EdgecVision* with = vision(handle);
    int64_t left = 0;
    check([&](char* error, size_t capacity) { return edgec_vision_step(with, &left, error, capacity); });
    return left;
  });
}

// Lets the image encoder read a tile as it is, for golden vectors.
EDGEC_JNI(void, see)(JNIEnv* env, jobject, jlong handle, jfloatArray tile) {
  guarded(env, [&] {
    EdgecVision* with = vision(handle);
    if (tile == nullptr) throw Failed{"the tile is null"};
    std::vector<jfloat> values(static_cast<size_t>(env->GetArrayLength(tile)));
    env->GetFloatArrayRegion(tile, 0, static_cast<jsize>(values.size()), values.data());
    check([&](char* error, size_t capacity) {
      return edgec_vision_encode(with, values.data(), values.size(), error, capacity);
    });
  });
}

// Gives the rows to a decoder for the ids of a whole prompt; returns how many of the first tokens its cache still holds.
EDGEC_JNI(jlong, place)(JNIEnv* env, jobject, jlong handle, jlong decoder, jlongArray tokens) {
  return guarded(env, [&]() -> jlong {
    EdgecVision* with = vision(handle);
    const std::vector<int64_t> ids = numbers(env, tokens);
    EdgecSession* session = opened(decoder).session.get();
    int64_t kept = 0;
    check([&](char* error, size_t capacity) {
      return edgec_vision_place(with, session, ids.data(), ids.size(), &kept, error, capacity);
    });
    return kept;
  });
}

// How many tokens the decoder's next call takes while a prompt is read from `start` up to `end`; 0: they see too far.
EDGEC_JNI(jlong, callSize)(JNIEnv* env, jobject, jlong decoder, jlong start, jlong end) {
  return guarded(env, [&]() -> jlong { return edgec_session_call_size(opened(decoder).session.get(), start, end); });
}

EDGEC_JNI(void, close)(JNIEnv*, jobject, jlong handle) {
  edgec_vision_close(reinterpret_cast<EdgecVision*>(handle));
}
