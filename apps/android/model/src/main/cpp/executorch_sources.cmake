# ExecuTorch from its sources. Its build runs Python with torchgen (part of torch) to write the operators' registration:
# activate the environment in which edgec is installed, or give -DPYTHON_EXECUTABLE=FILE.
set(EXECUTORCH_BUILD_PTHREADPOOL ON CACHE BOOL "" FORCE)
set(EXECUTORCH_BUILD_CPUINFO ON CACHE BOOL "" FORCE)
set(EXECUTORCH_BUILD_EXECUTOR_RUNNER OFF CACHE BOOL "" FORCE)
# Why something failed is part of the app's exception, and the artifact is checked before its parts are read.
set(EXECUTORCH_ENABLE_LOGGING ON CACHE BOOL "" FORCE)
set(EXECUTORCH_LOG_LEVEL Error CACHE STRING "" FORCE)
set(EXECUTORCH_ENABLE_PROGRAM_VERIFICATION ON CACHE BOOL "" FORCE)
set(EXECUTORCH_BUILD_KERNELS_QUANTIZED ${EDGEC_QUANTIZED_OPERATORS} CACHE BOOL "" FORCE)
set(EXECUTORCH_BUILD_XNNPACK ${EDGEC_XNNPACK} CACHE BOOL "" FORCE)
set(EXECUTORCH_XNNPACK_ENABLE_WEIGHT_CACHE ${EDGEC_XNNPACK} CACHE BOOL "" FORCE)
# No phone has shown yet that XNNPACK's kernels for SME multiply correctly; under emulation they do not.
set(XNNPACK_ENABLE_ARM_SME OFF CACHE BOOL "" FORCE)
set(XNNPACK_ENABLE_ARM_SME2 OFF CACHE BOOL "" FORCE)

set(source "${EXECUTORCH_ROOT}")
if(NOT source)
  include(FetchContent)
  set(submodules third-party/flatbuffers third-party/flatcc third-party/gflags third-party/json
    backends/xnnpack/third-party/FXdiv backends/xnnpack/third-party/cpuinfo backends/xnnpack/third-party/pthreadpool)
  if(EDGEC_XNNPACK)
    list(APPEND submodules backends/xnnpack/third-party/XNNPACK backends/xnnpack/third-party/FP16)
  endif()
  FetchContent_Declare(executorch
    GIT_REPOSITORY https://github.com/pytorch/executorch
    GIT_TAG "v${EDGEC_EXECUTORCH_VERSION}"
    GIT_SHALLOW TRUE
    GIT_SUBMODULES ${submodules}
    GIT_SUBMODULES_RECURSE FALSE
    # ExecuTorch builds only in a folder of this name.
    SOURCE_DIR "${CMAKE_BINARY_DIR}/executorch"
    SOURCE_SUBDIR not-added-yet)
  FetchContent_MakeAvailable(executorch)
  set(source "${CMAKE_BINARY_DIR}/executorch")
endif()
file(STRINGS "${source}/version.txt" found LIMIT_COUNT 1)
if(NOT found STREQUAL EDGEC_EXECUTORCH_VERSION)
  message(WARNING "The artifact was made with ExecuTorch ${EDGEC_EXECUTORCH_VERSION}; the sources are of ${found}.")
endif()
add_subdirectory("${source}" "${CMAKE_BINARY_DIR}/executorch-build" EXCLUDE_FROM_ALL)

# The kernels that the artifact uses, and no others.
set(EXECUTORCH_ROOT "${source}")
include("${source}/tools/cmake/Utils.cmake")
include("${source}/tools/cmake/Codegen.cmake")
if(NOT PYTHON_EXECUTABLE)
  resolve_python_executable()
endif()
list(JOIN EDGEC_ROOT_OPERATORS "," operators)
set(schema "${source}/kernels/portable/functions.yaml")
gen_selected_ops(LIB_NAME edgec_operators ROOT_OPS "${operators}")
generate_bindings_for_kernels(LIB_NAME edgec_operators FUNCTIONS_YAML "${schema}")
gen_operators_lib(LIB_NAME edgec_operators KERNEL_LIBS portable_kernels DEPS executorch_core)

# What the engine is compiled against (edgec/CMakeLists.txt). Targets that register something when they are loaded ask
# themselves to be linked whole.
add_library(edgec_executorch INTERFACE)
target_link_libraries(edgec_executorch INTERFACE executorch executorch_core edgec_operators extension_threadpool)
if(EDGEC_XNNPACK)
  target_link_libraries(edgec_executorch INTERFACE xnnpack_backend)
endif()
if(EDGEC_QUANTIZED_OPERATORS)
  target_link_libraries(edgec_executorch INTERFACE quantized_ops_lib)
endif()
if(ANDROID)
  target_link_libraries(edgec_executorch INTERFACE log)
endif()
