#include "fabric/error.h"

#include <new>

namespace weft {

Status caught(Code code) {
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return Status(Code::system, "there is no memory for it");
  } catch (const std::exception& error) {
    return Status(code, error.what());
  } catch (...) {
    return Status(code, "something that is no exception was thrown");
  }
}

}  // namespace weft
