// The thread pool that XNNPACK and the kernels share, one per process.
#pragma once

namespace edgec::engine {

// Set the pool's size (below 1: leave it); returns the size in force. Not while a model runs.
int pool_threads(int wanted);

// Which pool it is: XNNPACK keeps this pointer in every loaded method, and a new size makes a new pool.
const void* pool_identity();

}  // namespace edgec::engine
