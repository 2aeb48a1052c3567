# What CMakeLists.txt reads of the model: `edgec embed` writes these.
set(EDGEC_LIBRARY edgec_sample)
set(EDGEC_PACKAGE dev.edgec.sample)
# The engine's sources, and which of its folders are compiled besides core and kernels.
set(EDGEC_ENGINE "${CMAKE_CURRENT_LIST_DIR}/../../../../../../engine")
set(EDGEC_PARTS "")
set(EDGEC_JNI edgec_jni.cpp)
set(EDGEC_EXECUTORCH_VERSION "1.5.1")
# The artifact has delegates for XNNPACK; without them the library does without it.
set(EDGEC_XNNPACK OFF)
# The operators that the artifact takes from ExecuTorch.
set(EDGEC_ROOT_OPERATORS
  aten::mul.out
)
set(EDGEC_QUANTIZED_OPERATORS OFF)
