// Each pixel of the result is a weighted mean of those under a window around its place. Where an image shrinks, the
// window grows with it, so that no pixel is left out. First along lines, then across them (or the other way round), each
// time to bytes: weights are whole numbers of 2^-22, and sums are rounded and kept within a byte.
#include "resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace edgec::runner {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int kFractionBits = 22;
constexpr int32_t kHalf = int32_t{1} << (kFractionBits - 1);

// A window of width `span_end` on each side, and the weight at a distance from its middle.
struct Window {
  double span_end;
  double (*weight)(double distance);
};

double box(double x) {
  return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

double bilinear(double x) {
  return std::max(0.0, 1.0 - std::fabs(x));
}

// A raised cosine over a sinc.
double hamming(double x) {
  const double far = std::fabs(x), angle = far * kPi;
  if (far == 0.0) return 1.0;
  return far >= 1.0 ? 0.0 : std::sin(angle) / angle * (0.54F + 0.46F * std::cos(angle));
}

// Keys' cubic convolution with a = -1/2.
double bicubic(double x) {
  constexpr double a = -0.5;
  const double far = std::fabs(x);
  if (far < 1.0) return ((a + 2.0) * far - (a + 3.0)) * far * far + 1.0;
  return far < 2.0 ? (((far - 5.0) * far + 8.0) * far - 4.0) * a : 0.0;
}

double sinc(double x) {
  return x == 0.0 ? 1.0 : std::sin(x * kPi) / (x * kPi);
}

double lanczos(double x) {
  return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

Window window_of(Resampling how) {
  switch (how) {
    case Resampling::kLanczos: return {3.0, lanczos};
    case Resampling::kBilinear: return {1.0, bilinear};
    case Resampling::kBicubic: return {2.0, bicubic};
    case Resampling::kHamming: return {1.0, hamming};
    default: return {0.5, box};
  }
}

// From which places along an edge each place of the result is mixed, and with which weights.
struct Mixes {
  size_t most = 0;             // places under a window
  std::vector<int64_t> first;  // [result]
  std::vector<int64_t> count;  // [result]
  std::vector<int32_t> weights;  // [result][most]
};

Mixes mixes(int64_t from, int64_t to, const Window& window) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), widened = std::max(scale, 1.0);
  const double span_end = window.span_end * widened, narrowed = 1.0 / widened;
  Mixes made;
  made.most = static_cast<size_t>(std::ceil(span_end)) * 2 + 1;
  made.weights.resize(static_cast<size_t>(to) * made.most);
  std::vector<double> parts(made.most);
  for (int64_t place = 0; place < to; ++place) {
    const double middle = (static_cast<double>(place) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(middle - span_end + 0.5));
    const int64_t end = std::min(from, static_cast<int64_t>(middle + span_end + 0.5));
    const auto count = static_cast<size_t>(std::max<int64_t>(0, end - first));
    double sum = 0.0;
    for (size_t i = 0; i < count; ++i) {
      parts[i] = window.weight((static_cast<double>(i) + static_cast<double>(first) - middle + 0.5) * narrowed);
      sum += parts[i];
    }
    int32_t* weights = &made.weights[static_cast<size_t>(place) * made.most];
    for (size_t i = 0; i < count; ++i) {
      const double part = (sum != 0.0 ? parts[i] / sum : parts[i]) * (int32_t{1} << kFractionBits);
      weights[i] = static_cast<int32_t>(part < 0.0 ? part - 0.5 : part + 0.5);
    }
    made.first.push_back(first);
    made.count.push_back(static_cast<int64_t>(count));
  }
  return made;
}

uint8_t byte_of(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

void copy_line(const uint8_t* line, int64_t pixel_bytes, int64_t width, uint8_t* out) {
  for (int64_t x = 0; x < width; ++x) std::memcpy(out + x * kColours, line + x * pixel_bytes, kColours);
}

void mix_line(const uint8_t* line, int64_t pixel_bytes, const Mixes& along, uint8_t* out) {
  for (size_t x = 0; x < along.first.size(); ++x) {
    const uint8_t* pixel = line + along.first[x] * pixel_bytes;
    const int32_t* weights = &along.weights[x * along.most];
    int32_t red = kHalf, green = kHalf, blue = kHalf;
    for (int64_t i = 0; i < along.count[x]; ++i, pixel += pixel_bytes) {
      red += pixel[0] * weights[i];
      green += pixel[1] * weights[i];
      blue += pixel[2] * weights[i];
    }
    *out++ = byte_of(red);
    *out++ = byte_of(green);
    *out++ = byte_of(blue);
  }
}

// The lines of an image, each made of its full width when it is first asked for; only the last ones are kept.
class MixedLines {
 public:
  MixedLines(const PixelView& image, int64_t width, const Window& window, size_t kept)
      : image_(image),
        width_(width),
        same_(width == image.size.width),
        along_(same_ ? Mixes{} : mixes(image.size.width, width, window)),
        kept_(static_cast<int64_t>(kept)),
        bytes_(kept * static_cast<size_t>(width * kColours)) {}

  // Line y; later calls ask for no line before the last `kept` ones.
  const uint8_t* operator()(int64_t y) {
    for (; made_ <= y; ++made_) {
      uint8_t* out = place(made_);
      if (same_) {
        copy_line(image_.line(made_), image_.pixel_bytes, width_, out);
      } else {
        mix_line(image_.line(made_), image_.pixel_bytes, along_, out);
      }
    }
    return place(y);
  }

 private:
  uint8_t* place(int64_t y) { return bytes_.data() + (y % kept_) * width_ * kColours; }

  PixelView image_;
  int64_t width_;
  bool same_;
  Mixes along_;
  int64_t kept_;
  int64_t made_ = 0;
  std::vector<uint8_t> bytes_;
};

// Whether Pillow (13 and newer) mixes across lines first: where the height shrinks by far more pixels than the width.
bool goes_down_first(PixelSize from, PixelSize to) {
  return to.height < from.height && from.height - to.height > 2 * (from.width - to.width);
}

// Add a line's bytes times a weight to the sums of its colours.
void add_line(const uint8_t* line, int64_t pixel_bytes, int32_t weight, std::vector<int32_t>& sums) {
  if (pixel_bytes == kColours) {
    for (size_t at = 0; at < sums.size(); ++at) sums[at] += line[at] * weight;
    return;
  }
  for (size_t at = 0; at < sums.size(); at += kColours, line += pixel_bytes) {
    for (size_t colour = 0; colour < kColours; ++colour) sums[at + colour] += line[colour] * weight;
  }
}

Picture mixed_down_first(const PixelView& image, PixelSize size, const Window& window) {
  Picture made(size);
  const Mixes down = mixes(image.size.height, size.height, window);
  const bool same = size.width == image.size.width;
  const Mixes along = same ? Mixes{} : mixes(image.size.width, size.width, window);
  std::vector<int32_t> sums(static_cast<size_t>(image.size.width * kColours));
  std::vector<uint8_t> line(sums.size());
  for (size_t y = 0; y < down.first.size(); ++y) {
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int64_t i = 0; i < down.count[y]; ++i) {
      const int32_t weight = down.weights[y * down.most + static_cast<size_t>(i)];
      add_line(image.line(down.first[y] + i), image.pixel_bytes, weight, sums);
    }
    std::transform(sums.begin(), sums.end(), line.begin(), byte_of);
    uint8_t* out = made.line(static_cast<int64_t>(y));
    if (same) {
      std::memcpy(out, line.data(), line.size());
    } else {
      mix_line(line.data(), kColours, along, out);
    }
  }
  return made;
}

Picture mixed(const PixelView& image, PixelSize size, const Window& window) {
  if (goes_down_first(image.size, size)) return mixed_down_first(image, size, window);
  Picture made(size);
  const auto values = static_cast<size_t>(size.width * kColours);
  if (size.height == image.size.height) {
    MixedLines lines(image, size.width, window, 1);
    for (int64_t y = 0; y < size.height; ++y) std::memcpy(made.line(y), lines(y), values);
    return made;
  }
  const Mixes down = mixes(image.size.height, size.height, window);
  MixedLines lines(image, size.width, window, down.most);
  std::vector<int32_t> sums(values);
  for (size_t y = 0; y < down.first.size(); ++y) {
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int64_t i = 0; i < down.count[y]; ++i) {
      const int32_t weight = down.weights[y * down.most + static_cast<size_t>(i)];
      add_line(lines(down.first[y] + i), kColours, weight, sums);
    }
    std::transform(sums.begin(), sums.end(), made.line(static_cast<int64_t>(y)), byte_of);
  }
  return made;
}

// For each place of the result the one it is taken from; the steps are added up one by one, as Pillow does.
std::vector<int64_t> nearest(int64_t from, int64_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  std::vector<int64_t> places;
  double at = step * 0.5;
  for (int64_t place = 0; place < to; ++place, at += step) {
    places.push_back(std::min(from - 1, static_cast<int64_t>(at)));
  }
  return places;
}

Picture picked(const PixelView& image, PixelSize size) {
  const std::vector<int64_t> along = nearest(image.size.width, size.width);
  const std::vector<int64_t> down = nearest(image.size.height, size.height);
  Picture made(size);
  uint8_t* out = made.bytes.data();
  for (const int64_t y : down) {
    for (const int64_t x : along) {
      std::memcpy(out, image.line(y) + x * image.pixel_bytes, kColours);
      out += kColours;
    }
  }
  return made;
}

}  // namespace

Picture resample(const PixelView& image, PixelSize size, Resampling how) {
  return how == Resampling::kNearest && !(size == image.size) ? picked(image, size) : mixed(image, size, window_of(how));
}

}  // namespace edgec::runner
