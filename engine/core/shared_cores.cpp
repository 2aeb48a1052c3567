#include "shared_cores.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>

#include "allowed_cores.h"
#include "kernels/apple_system.h"

namespace edgec::engine {
namespace {

constexpr double kOfTheHighestClock = 0.75;

double number_in(const std::string& file) {
  double value = 0;
  std::ifstream stream(file);
  return stream >> value && value > 0 ? value : 0;
}

// One number for each allowed core; empty where one of them has none.
std::vector<double> each_core(const std::string& root, const std::string& file) {
  std::vector<double> found;
  for (const int64_t core : allowed_cores()) {
    const double value = number_in(root + "/cpu" + std::to_string(core) + "/" + file);
    if (value == 0) return {};
    found.push_back(value);
  }
  return found;
}

#if defined(__linux__)
// This process's control group below the folder where they are mounted; empty in the first one, or without any.
std::string own_group() {
  std::ifstream stream("/proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "";
}
#endif

}  // namespace

int gaining_cores(std::vector<double> capacities) {
  std::sort(capacities.begin(), capacities.end(), std::greater<>());
  size_t best = 0;
  for (size_t n = 1; n < capacities.size(); ++n) {
    const double fewer = static_cast<double>(best + 1) * capacities[best];
    if (static_cast<double>(n + 1) * capacities[n] > fewer) best = n;
  }
  return capacities.empty() ? 0 : static_cast<int>(best) + 1;
}

std::vector<double> core_capacities(const std::string& root) {
  std::vector<double> found = each_core(root, "cpu_capacity");
  if (!found.empty()) return found;
  found = each_core(root, "cpufreq/cpuinfo_max_freq");
  if (found.empty()) return found;
  const double least = kOfTheHighestClock * *std::max_element(found.begin(), found.end());
  found.erase(std::remove_if(found.begin(), found.end(), [&](double clock) { return clock < least; }), found.end());
  return found;
}

double granted_cores(const std::string& groups, std::string folder) {
  double least = 0;
  while (folder.size() >= groups.size()) {
    std::ifstream stream(folder + "/cpu.max");
    double time = 0, period = 0;
    if (stream >> time >> period && period > 0) {
      least = least == 0 ? time / period : std::min(least, time / period);
    }
    folder.erase(folder.find_last_of('/'));
  }
  return least;
}

int shared_cores() {
#if defined(__APPLE__)
  return system_number("hw.perflevel0.physicalcpu");
#elif defined(__linux__)
  const std::string groups = "/sys/fs/cgroup";
  const int allowed = static_cast<int>(allowed_cores().size());
  const int gaining = gaining_cores(core_capacities("/sys/devices/system/cpu"));
  const int cores = gaining == 0 ? allowed : gaining;
  const double granted = granted_cores(groups, groups + own_group());
  return granted == 0 ? cores : std::min(cores, std::max(1, static_cast<int>(std::floor(granted))));
#else
  return 0;
#endif
}

}  // namespace edgec::engine
