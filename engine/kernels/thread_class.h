// In which class of macOS's and iOS's scheduler threads work that share a step: a thread of no class may be put on an
// efficiency core, and a step waits for its slowest thread.
#pragma once

#if defined(__APPLE__)
#include <pthread/qos.h>
#endif

namespace edgec {

// The class of whoever begins a step, which its threads take over: somebody who waits for a person gets no slower ones,
// and work in the background stays there. A caller of no class counts as one who waits for a person.
class ThreadClass {
 public:
#if defined(__APPLE__)
  ThreadClass() : wanted_(qos_class_self()) {
    if (wanted_ == QOS_CLASS_UNSPECIFIED || wanted_ == QOS_CLASS_DEFAULT) wanted_ = QOS_CLASS_USER_INITIATED;
  }
  void take_over() const {
    if (qos_class_self() != wanted_) pthread_set_qos_class_self_np(wanted_, 0);
  }

 private:
  qos_class_t wanted_;
#else
  void take_over() const {}
#endif
};

}  // namespace edgec
