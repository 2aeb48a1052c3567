// The C interface of edgec's engine, under names of this package's own, so that an app may hold several such packages.
// A package whose artifact the system executes holds only the part of the engine that prepares images or transcribes.
#pragma once

#define edgec_abi_version SampleKit_abi_version
#define edgec_threads SampleKit_threads
#define edgec_has_operator SampleKit_has_operator
#define edgec_linear_kernel SampleKit_linear_kernel
#define edgec_linear_kernels SampleKit_linear_kernels
#define edgec_packed_path SampleKit_packed_path
#define edgec_model_open SampleKit_model_open
#define edgec_model_close SampleKit_model_close
#define edgec_model_info SampleKit_model_info
#define edgec_session_open SampleKit_session_open
#define edgec_session_close SampleKit_session_close
#define edgec_adapter_open SampleKit_adapter_open
#define edgec_adapter_read SampleKit_adapter_read
#define edgec_adapter_digest SampleKit_adapter_digest
#define edgec_adapter_close SampleKit_adapter_close
#define edgec_session_adapter SampleKit_session_adapter
#define edgec_session_run SampleKit_session_run
#define edgec_session_forward SampleKit_session_forward
#define edgec_model_embeds_width SampleKit_model_embeds_width
#define edgec_session_input_embeds SampleKit_session_input_embeds
#define edgec_session_call_size SampleKit_session_call_size
#define edgec_model_step SampleKit_model_step
#define edgec_session_output_count SampleKit_session_output_count
#define edgec_session_output SampleKit_session_output
#define edgec_session_state SampleKit_session_state
#define edgec_session_profile SampleKit_session_profile
#define edgec_session_profile_reset SampleKit_session_profile_reset
#define edgec_structure_open SampleKit_structure_open
#define edgec_structure_close SampleKit_structure_close
#define edgec_structure_token SampleKit_structure_token
#define edgec_text_open SampleKit_text_open
#define edgec_text_close SampleKit_text_close
#define edgec_text_mask SampleKit_text_mask
#define edgec_text_take SampleKit_text_take
#define edgec_text_state SampleKit_text_state
#define edgec_audio_open SampleKit_audio_open
#define edgec_audio_open_called SampleKit_audio_open_called
#define edgec_audio_close SampleKit_audio_close
#define edgec_audio_begin SampleKit_audio_begin
#define edgec_audio_begin_file SampleKit_audio_begin_file
#define edgec_audio_step SampleKit_audio_step
#define edgec_audio_summary SampleKit_audio_summary
#define edgec_audio_read SampleKit_audio_read
#define edgec_audio_feed SampleKit_audio_feed
#define edgec_vision_open SampleKit_vision_open
#define edgec_vision_close SampleKit_vision_close
#define edgec_vision_info SampleKit_vision_info
#define edgec_vision_tiles SampleKit_vision_tiles
#define edgec_vision_text SampleKit_vision_text
#define edgec_vision_prompt SampleKit_vision_prompt
#define edgec_vision_prepare SampleKit_vision_prepare
#define edgec_vision_begin SampleKit_vision_begin
#define edgec_vision_add SampleKit_vision_add
#define edgec_vision_step SampleKit_vision_step
#define edgec_vision_encode SampleKit_vision_encode
#define edgec_vision_place SampleKit_vision_place
#define edgec_vision_times SampleKit_vision_times
#define edgec_register_standard_operators SampleKit_register_standard_operators
#define edgec_images_open SampleKit_images_open
#define edgec_images_close SampleKit_images_close
#define edgec_images_prompt SampleKit_images_prompt
#define edgec_images_tiles SampleKit_images_tiles
#define edgec_images_prepare SampleKit_images_prepare
#define edgec_images_places SampleKit_images_places

#if __has_include("../edgec/include/edgec/engine.h")
#include "../edgec/include/edgec/engine.h"
#endif
#if __has_include("../edgec/include/edgec/audio.h")
#include "../edgec/include/edgec/audio.h"
#endif
#if __has_include("../edgec/include/edgec/images.h")
#include "../edgec/include/edgec/images.h"
#endif
#if __has_include("../edgec/include/edgec/vision.h")
#include "../edgec/include/edgec/vision.h"
#endif

#if defined(__cplusplus)
extern "C" {
#endif

// Register kernels for the operators of ExecuTorch's library for language models that the process lacks.
void edgec_register_standard_operators(void);

#if defined(__cplusplus)
}
#endif
