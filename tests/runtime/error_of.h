// What a call throws, for tests that compare it with what eager throws.
#pragma once

#include <c10/util/Exception.h>

#include <functional>
#include <string>

namespace tjit {

// The message of the c10::Error that `call` throws; "" if it throws none.
inline std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return "";
}

}  // namespace tjit
