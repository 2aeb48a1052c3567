// Feeds tokens to the engine that an app compiles, through its C interface and through its JNI functions. Their
// environment is a stand-in: a table with the functions that the layer calls.
//
//     engine_calls ARTIFACT METHOD CHUNK LOGITS PROMPT_TOKENS TOKEN...
//
// LOGITS gets those after the prompt and after each later token, float32, first from the C interface, then from JNI. On
// stdout: one NAME=VALUE per fact about states and failures.
#include <jni.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "edgec/engine.h"

#define JOIN(prefix, name) prefix##name
#define JOINED(prefix, name) JOIN(prefix, name)
#define NATIVE(name) JOINED(EDGEC_JNI_PREFIX, name)

extern "C" {
jlong NATIVE(open)(JNIEnv*, jobject, jbyteArray, jbyteArray);
jfloatArray NATIVE(forward)(JNIEnv*, jobject, jlong, jlongArray, jlong);
jobject NATIVE(state)(JNIEnv*, jobject, jlong);
void NATIVE(reset)(JNIEnv*, jobject, jlong);
void NATIVE(close)(JNIEnv*, jobject, jlong);
}

namespace {

// Behind every array and buffer handle.
struct Object {
  std::vector<char> own;
  char* data;
  size_t bytes;
  size_t each;
};

std::vector<std::unique_ptr<Object>> objects;
std::string failure_class;
std::string thrown;

Object& behind(jobject handle) {
  return *reinterpret_cast<Object*>(handle);
}

template <typename Handle, typename Element>
Handle made(const Element* values, size_t count) {
  auto object = std::make_unique<Object>();
  const auto* first = reinterpret_cast<const char*>(values);
  object->own.resize(count * sizeof(Element));
  if (values != nullptr) std::copy_n(first, object->own.size(), object->own.data());
  object->data = object->own.data();
  object->bytes = object->own.size();
  object->each = sizeof(Element);
  objects.push_back(std::move(object));
  return reinterpret_cast<Handle>(objects.back().get());
}

jsize JNICALL length(JNIEnv*, jarray array) {
  return static_cast<jsize>(behind(array).bytes / behind(array).each);
}

template <typename Handle, typename Element>
void JNICALL get(JNIEnv*, Handle array, jsize start, jsize count, Element* into) {
  std::memcpy(into, behind(array).data + start * sizeof(Element), count * sizeof(Element));
}

void JNICALL set_floats(JNIEnv*, jfloatArray array, jsize start, jsize count, const jfloat* from) {
  std::memcpy(behind(array).data + start * sizeof(jfloat), from, count * sizeof(jfloat));
}

jfloatArray JNICALL new_floats(JNIEnv*, jsize count) {
  return made<jfloatArray, jfloat>(nullptr, static_cast<size_t>(count));
}

jobject JNICALL new_buffer(JNIEnv*, void* data, jlong bytes) {
  auto object = std::make_unique<Object>();
  object->data = static_cast<char*>(data);
  object->bytes = static_cast<size_t>(bytes);
  object->each = 1;
  objects.push_back(std::move(object));
  return reinterpret_cast<jobject>(objects.back().get());
}

jclass JNICALL find_class(JNIEnv*, const char* name) {
  failure_class = name;
  return reinterpret_cast<jclass>(&failure_class);
}

jint JNICALL throw_new(JNIEnv*, jclass, const char* why) {
  thrown = why;
  return 0;
}

JNINativeInterface_ functions() {
  JNINativeInterface_ table{};
  table.GetArrayLength = length;
  table.GetByteArrayRegion = get<jbyteArray, jbyte>;
  table.GetLongArrayRegion = get<jlongArray, jlong>;
  table.NewFloatArray = new_floats;
  table.SetFloatArrayRegion = set_floats;
  table.NewDirectByteBuffer = new_buffer;
  table.FindClass = find_class;
  table.ThrowNew = throw_new;
  return table;
}

using Row = std::vector<float>;
using Tokens = std::vector<int64_t>;
// Feeds tokens at the positions from a start on; returns the logits of the last one.
using Feed = std::function<Row(const Tokens&, int64_t)>;

// The logits after the prompt, fed in chunks, and after each later token, fed alone.
std::vector<Row> replay(const Feed& feed, const Tokens& tokens, size_t prompt, size_t chunk) {
  std::vector<Row> rows;
  for (size_t at = 0; at < tokens.size();) {
    const size_t end = at < prompt ? std::min(at + chunk, prompt) : at + 1;
    Row row = feed({tokens.begin() + at, tokens.begin() + end}, static_cast<int64_t>(at));
    if (end >= prompt) rows.push_back(std::move(row));
    at = end;
  }
  return rows;
}

void must(bool fine, const std::string& what) {
  if (fine) return;
  std::cerr << what << "\n";
  std::exit(1);
}

Row through_c(EdgecSession* session, const Tokens& tokens, int64_t start) {
  char error[512] = "";
  Tokens positions(tokens.size());
  for (size_t i = 0; i < tokens.size(); i++) positions[i] = start + static_cast<int64_t>(i);
  const auto last = static_cast<int64_t>(tokens.size()) - 1;
  const int status = edgec_session_forward(
      session, tokens.data(), positions.data(), tokens.size(), &last, 1, error, sizeof error);
  must(status == EDGEC_OK, error);
  EdgecTensor output{};
  must(edgec_session_output(session, 0, &output) == EDGEC_OK && output.rank == 3, "no logits");
  const auto* first = static_cast<const float*>(output.data);
  return {first, first + output.sizes[2]};
}

std::vector<Row> c_rows(const char* artifact, const char* method, const Tokens& tokens, size_t prompt, size_t chunk) {
  char error[512] = "";
  EdgecModel* model = edgec_model_open(artifact, method, nullptr, error, sizeof error);
  must(model != nullptr, error);
  EdgecSession* session = edgec_session_open(model, 0, error, sizeof error);
  must(session != nullptr, error);
  const auto feed = [&](const Tokens& part, int64_t start) { return through_c(session, part, start); };
  std::vector<Row> rows = replay(feed, tokens, prompt, chunk);
  edgec_session_close(session);
  edgec_model_close(model);
  return rows;
}

// The functions of one opened model, as Kotlin calls them.
struct Engine {
  JNIEnv* env;
  jlong handle;

  Row forward(const Tokens& tokens, int64_t start) const {
    const std::vector<jlong> ids(tokens.begin(), tokens.end());
    const auto given = made<jlongArray, jlong>(ids.data(), ids.size());
    const jfloatArray array = NATIVE(forward)(env, nullptr, handle, given, start);
    if (array == nullptr) return {};
    const auto* first = reinterpret_cast<const float*>(behind(array).data);
    return {first, first + length(env, array)};
  }
};

jbyteArray bytes(const std::string& text) {
  return made<jbyteArray, jbyte>(reinterpret_cast<const jbyte*>(text.data()), text.size());
}

void say(const std::string& name, const std::string& value) {
  std::cout << name << "=" << value << "\n";
}

void say_failure(const std::string& name) {
  say(name, failure_class + ": " + thrown);
  failure_class.clear();
  thrown.clear();
}

void tell_states(const Engine& engine, const Tokens& tokens) {
  Object& state = behind(NATIVE(state)(engine.env, nullptr, engine.handle));
  const int64_t next = static_cast<int64_t>(tokens.size());
  const std::vector<char> saved(state.data, state.data + state.bytes);
  const Row wanted = engine.forward({tokens[0]}, next);
  const bool moved = !std::equal(saved.begin(), saved.end(), state.data);
  std::copy(saved.begin(), saved.end(), state.data);
  say("state", std::to_string(state.bytes) + (moved ? " bytes, moved by a token" : " bytes"));
  say("restored", engine.forward({tokens[0]}, next) == wanted ? "the same" : "other logits");
  NATIVE(reset)(engine.env, nullptr, engine.handle);
  say("reset", std::all_of(state.data, state.data + state.bytes, [](char byte) { return byte == 0; }) ? "zeros" : "kept");
}

void tell_failures(const Engine& engine, const std::string& method) {
  NATIVE(open)(engine.env, nullptr, bytes("/absent\xc3\xa9.pte"), bytes(method));
  say_failure("absent");
  engine.forward({1 << 30}, 0);
  say_failure("token");
  engine.forward({1}, -1);
  say_failure("before");
  engine.forward({1}, INT64_MAX);
  say_failure("beyond");
  engine.forward({}, 0);
  say_failure("none");
  Engine{engine.env, 0}.forward({1}, 0);
  say_failure("closed");
  NATIVE(close)(engine.env, nullptr, 0);
  say("after", engine.forward({1}, 0).empty() ? "no logits" : "logits");
}

}  // namespace

int main(int count, char** words) {
  must(count > 6, "too few arguments");
  const std::string artifact = words[1], method = words[2];
  const size_t chunk = std::stoul(words[3]), prompt = std::stoul(words[5]);
  Tokens tokens;
  for (int i = 6; i < count; i++) tokens.push_back(std::stoll(words[i]));
  const JNINativeInterface_ table = functions();
  JNIEnv env{&table};
  Engine engine{&env, NATIVE(open)(&env, nullptr, bytes(artifact), bytes(method))};
  must(engine.handle != 0, thrown);
  const auto feed = [&](const Tokens& part, int64_t start) { return engine.forward(part, start); };
  std::vector<Row> rows = c_rows(artifact.c_str(), method.c_str(), tokens, prompt, chunk);
  for (Row& row : replay(feed, tokens, prompt, chunk)) rows.push_back(std::move(row));
  std::ofstream file(words[4], std::ios::binary);
  for (const Row& row : rows) file.write(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
  tell_states(engine, tokens);
  tell_failures(engine, method);
  NATIVE(close)(&env, nullptr, engine.handle);
}
