#include "fabric/error.h"

namespace weft {

Status caught() {
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return Status(Code::aborted, error.what());
  } catch (...) {
    return Status(Code::aborted, "something that is no exception was thrown");
  }
}

}  // namespace weft
