// ncclParam*: settings as programs read them.
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/text.h"
#include "nccl/api.h"
#include "nccl/debug.h"
#include "nccl/settings.h"

namespace weft::nccl {
namespace {

// Handles are the table's entries.
ncclParamHandle_t handle_of(const Setting& setting) {
  return reinterpret_cast<ncclParamHandle_t>(const_cast<Setting*>(&setting));
}

Result<const Setting*> setting_of(ncclParamHandle_t handle) {
  for (const Setting& setting : settings())
    if (handle_of(setting) == handle) return &setting;
  return invalid_argument(
      concat("h is ", address_text(handle), ", which is no handle of ncclParamBind"));
}

std::string value_of(const Setting& setting) {
  return Environment::of_process().get(setting.name).value_or(std::string(setting.usual));
}

Result<const Setting*> setting_named(const char* key) {
  if (!key) return invalid_argument("key is null; give the name of a setting");
  if (const Setting* setting = find_setting(key)) return setting;
  return invalid_argument(
      concat("\"", key, "\" is not a setting; ncclParamGetAllParameterKeys lists them"));
}

Answer bind(ncclParamHandle_t* out, const char* key) {
  if (!out) return invalid_argument("out is null; say where the handle shall go");
  const auto setting = setting_named(key);
  if (!setting.ok()) return setting.status();
  *out = handle_of(**setting);
  return ncclSuccess;
}

template <class Number>
ncclResult_t get_number(const char* call, ncclParamHandle_t h, Number* out) noexcept {
  return answer(call, [&]() -> Answer {
    if (!out) return invalid_argument("out is null; say where the value shall go");
    const auto setting = setting_of(h);
    if (!setting.ok()) return setting.status();
    const std::string text = value_of(**setting);
    const std::optional<int64_t> value = number_in(text);
    if (!value || !std::in_range<Number>(*value))
      return invalid_argument(
          concat((*setting)->name, " is \"", text, "\", which is no number of this type"));
    *out = static_cast<Number>(*value);
    return ncclSuccess;
  });
}

Answer get_text(ncclParamHandle_t h, const char** out) {
  static thread_local std::string text;
  if (!out) return invalid_argument("out is null; say where the address shall go");
  const auto setting = setting_of(h);
  if (!setting.ok()) return setting.status();
  text = value_of(**setting);
  *out = text.c_str();
  return ncclSuccess;
}

Answer get_bytes(ncclParamHandle_t h, void* out, int room, int* length) {
  if (!out) return invalid_argument("out is null; say where the value shall go");
  if (!length) return invalid_argument("len is null; say where its length shall go");
  const auto setting = setting_of(h);
  if (!setting.ok()) return setting.status();
  const std::string value = value_of(**setting);
  *length = static_cast<int>(value.size());
  if (room < *length)
    return invalid_argument(concat("maxLen is ", room, "; the value has ", *length, " bytes"));
  std::memcpy(out, value.data(), value.size());
  return ncclSuccess;
}

Answer get_by_key(const char* key, const char** value, int* length) {
  static thread_local std::string text;
  if (!value) return invalid_argument("value is null; say where the address shall go");
  *value = nullptr;
  if (length) *length = 0;
  const auto setting = setting_named(key);
  if (!setting.ok()) return setting.status();
  text = value_of(**setting);
  *value = text.c_str();
  if (length) *length = static_cast<int>(text.size());
  return ncclSuccess;
}

Answer list_keys(const char*** table, int* length) {
  static thread_local std::vector<const char*> keys;
  if (!table) return invalid_argument("table is null; say where the names shall go");
  if (!length) return invalid_argument("tableLen is null; say where their number shall go");
  keys.clear();
  for (const Setting& setting : settings()) keys.push_back(setting.name.data());
  *table = keys.data();
  *length = static_cast<int>(keys.size());
  return ncclSuccess;
}

Answer dump() {
  configure_debug(Environment::of_process());
  for (const Setting& setting : settings()) say(concat(setting.name, "=", value_of(setting)));
  return ncclSuccess;
}

}  // namespace
}  // namespace weft::nccl

using weft::nccl::answer;
using weft::nccl::get_number;

ncclResult_t pncclParamBind(ncclParamHandle_t* out, const char* key) {
  return answer("ncclParamBind", [&] { return weft::nccl::bind(out, key); });
}
WEFT_NCCL_TWIN(ncclParamBind);

ncclResult_t pncclParamGetI8(ncclParamHandle_t h, int8_t* out) {
  return get_number("ncclParamGetI8", h, out);
}
WEFT_NCCL_TWIN(ncclParamGetI8);

ncclResult_t pncclParamGetI16(ncclParamHandle_t h, int16_t* out) {
  return get_number("ncclParamGetI16", h, out);
}
WEFT_NCCL_TWIN(ncclParamGetI16);

ncclResult_t pncclParamGetI32(ncclParamHandle_t h, int32_t* out) {
  return get_number("ncclParamGetI32", h, out);
}
WEFT_NCCL_TWIN(ncclParamGetI32);

ncclResult_t pncclParamGetI64(ncclParamHandle_t h, int64_t* out) {
  return get_number("ncclParamGetI64", h, out);
}
WEFT_NCCL_TWIN(ncclParamGetI64);

ncclResult_t pncclParamGetU8(ncclParamHandle_t h, uint8_t* out) {
  return get_number("ncclParamGetU8", h, out);
}
WEFT_NCCL_TWIN(ncclParamGetU8);

ncclResult_t pncclParamGetU16(ncclParamHandle_t h, uint16_t* out) {
  return get_number("ncclParamGetU16", h, out);
}
WEFT_NCCL_TWIN(ncclParamGetU16);

ncclResult_t pncclParamGetU32(ncclParamHandle_t h, uint32_t* out) {
  return get_number("ncclParamGetU32", h, out);
}
WEFT_NCCL_TWIN(ncclParamGetU32);

ncclResult_t pncclParamGetU64(ncclParamHandle_t h, uint64_t* out) {
  return get_number("ncclParamGetU64", h, out);
}
WEFT_NCCL_TWIN(ncclParamGetU64);

ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char** out) {
  return answer("ncclParamGetStr", [&] { return weft::nccl::get_text(h, out); });
}
WEFT_NCCL_TWIN(ncclParamGetStr);

ncclResult_t pncclParamGet(ncclParamHandle_t h, void* out, int room, int* len) {
  return answer("ncclParamGet", [&] { return weft::nccl::get_bytes(h, out, room, len); });
}
WEFT_NCCL_TWIN(ncclParamGet);

ncclResult_t pncclParamGetParameter(const char* key, const char** value, int* length) {
  return answer("ncclParamGetParameter",
                [&] { return weft::nccl::get_by_key(key, value, length); });
}
WEFT_NCCL_TWIN(ncclParamGetParameter);

ncclResult_t pncclParamGetAllParameterKeys(const char*** table, int* length) {
  return answer("ncclParamGetAllParameterKeys",
                [&] { return weft::nccl::list_keys(table, length); });
}
WEFT_NCCL_TWIN(ncclParamGetAllParameterKeys);

void pncclParamDumpAll() {
  answer("ncclParamDumpAll", [] { return weft::nccl::dump(); });
}
WEFT_NCCL_TWIN(ncclParamDumpAll);
