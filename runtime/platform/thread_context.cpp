#include "runtime/platform/thread_context.h"

#include "runtime/platform/settings.h"

namespace tjit::runtime {

constinit thread_local ThreadContext t_context
    __attribute__((tls_model("initial-exec")));
std::atomic<bool> g_enabled{false};
std::atomic<bool> g_process_enabled{false};
constinit Settings g_settings;

}  // namespace tjit::runtime
