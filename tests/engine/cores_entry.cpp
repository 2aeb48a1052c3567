// What the engine makes of a machine's cores:
//     cores_entry gaining CAPACITY ...     cores_entry capacities FOLDER     cores_entry granted GROUPS FOLDER
#include "core/shared_cores.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int count, char** words) {
  const std::string asked = words[1];
  if (asked == "gaining") {
    std::vector<double> capacities;
    for (int i = 2; i < count; ++i) capacities.push_back(std::atof(words[i]));
    std::printf("%d\n", edgec::engine::gaining_cores(capacities));
  } else if (asked == "capacities") {
    for (const double each : edgec::engine::core_capacities(words[2])) std::printf("%g ", each);
  } else {
    std::printf("%g\n", edgec::engine::granted_cores(words[2], words[3]));
  }
  return 0;
}
