// How many cores a step is shared among until somebody chooses.
#pragma once

#include <string>
#include <vector>

namespace edgec::engine {

// A step waits for its slowest share: on n cores with equal shares it takes 1 / (n * the least capacity of them). The
// n fastest cores for which that is shortest; of two as short, the fewer. Capacities in any unit, greater than 0.
int gaining_cores(std::vector<double> capacities);

// The capacities of the cores that this thread may run on, as Linux and Android state them: cpu_capacity, which knows
// a core's design, or else the highest clock. Clocks hide that small cores do less in each cycle: cores below three
// quarters of the highest clock are left out. Empty where the system states neither. `root`: /sys/devices/system/cpu.
std::vector<double> core_capacities(const std::string& root);

// The cores' time that control groups (version 2) grant to this process: cpu.max of `folder` and of those around it,
// up to `groups`. 0 without a limit.
double granted_cores(const std::string& groups, std::string folder);

// The number for this machine; 0: unknown, as ExecuTorch has it, which counts every core.
int shared_cores();

}  // namespace edgec::engine
