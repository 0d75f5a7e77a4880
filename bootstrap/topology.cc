#include "bootstrap/topology.h"

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/json_object.h"
#include "base/text.h"

namespace weft {
namespace {

using nlohmann::json;

json json_of(const Host::NumaNode& node) {
  return {{"id", node.id}, {"cpus", node.cpus}, {"memory_bytes", node.memory_bytes}};
}
json json_of(const Host::Cache& cache) {
  return {{"level", cache.level},
          {"kind", cache.kind},
          {"bytes", cache.bytes},
          {"shared_by", cache.shared_by}};
}
json json_of(const Host::Nic& nic) {
  return {{"name", nic.name}, {"speed_mbps", nic.speed_mbps}, {"numa", nic.numa}};
}
json json_of(const Host::Gpu& gpu) {
  return {{"pci", gpu.pci}, {"device", gpu.device}, {"numa", gpu.numa}};
}
json json_of(const Host& host);
template <class T>
json json_of(const std::vector<T>& values) {
  json array = json::array();
  for (const T& value : values) array.push_back(json_of(value));
  return array;
}
json json_of(const Host& host) {
  return {{"name", host.name},          {"sockets", host.sockets},
          {"cores", host.cores},        {"cpus", host.cpus},
          {"numa", json_of(host.numa)}, {"caches", json_of(host.caches)},
          {"nics", json_of(host.nics)}, {"gpus", json_of(host.gpus)}};
}

// The members of one JSON object. The first mistake anywhere is kept, with its path.
class Object {
 public:
  Object(const json& value, std::string path, Status* status)
      : value_(value), path_(std::move(path)), status_(status) {
    if (!value.is_object()) fail(path_, "is not an object");
  }
  ~Object() {
    if (!value_.is_object()) return;
    for (const auto& [key, member] : value_.items())
      if (!known_.contains(key)) fail(concat(path_, ".", key), "is not known");
  }

  void read(const char* key, std::string& to) {
    if (const json* member = find(key, &json::is_string, "a text")) to = member->get<std::string>();
  }
  template <class Int>
  void read(const char* key, Int& to) {
    if (const json* member = find(key, &json::is_number_integer, "a whole number"))
      store(*member, concat(path_, ".", key), to);
  }
  void read(const char* key, std::vector<int>& to) {
    each(key, [&](const json& element, const std::string& path) {
      if (!element.is_number_integer()) return fail(path, "is not a whole number");
      store(element, path, to.emplace_back());
    });
  }
  template <class T>
  void read(const char* key, std::vector<T>& to) {
    each(key, [&](const json& element, const std::string& path) {
      Object object(element, path, status_);
      read_members(object, to.emplace_back());
    });
  }

 private:
  const json* find(const char* key, bool (json::*is)() const noexcept, const char* what) {
    known_.insert(key);
    const auto it = value_.is_object() ? value_.find(key) : value_.end();
    if (!value_.is_object() || it == value_.end()) return nullptr;
    if (((*it).*is)()) return &*it;
    fail(concat(path_, ".", key), concat("is not ", what));
    return nullptr;
  }
  template <class Visit>
  void each(const char* key, const Visit& visit) {
    const json* array = find(key, &json::is_array, "an array");
    for (size_t i = 0; array && i < array->size(); ++i)
      visit((*array)[i], concat(path_, ".", key, "[", i, "]"));
  }
  template <class Int>
  void store(const json& number, const std::string& path, Int& to) {
    const bool huge =
        number.is_number_unsigned() && number.get<uint64_t>() > std::numeric_limits<int64_t>::max();
    const int64_t value = huge ? -2 : number.get<int64_t>();
    if (value < -1 || value > std::numeric_limits<Int>::max()) return fail(path, "is out of range");
    to = static_cast<Int>(value);
  }
  void fail(const std::string& path, std::string_view what) {
    if (status_->ok())
      *status_ = invalid_argument(
          concat("The topology's member ", path.empty() ? "." : path, " ", what, "."));
  }

  static void read_members(Object& object, Host::NumaNode& node) {
    object.read("id", node.id);
    object.read("cpus", node.cpus);
    object.read("memory_bytes", node.memory_bytes);
  }
  static void read_members(Object& object, Host::Cache& cache) {
    object.read("level", cache.level);
    object.read("kind", cache.kind);
    object.read("bytes", cache.bytes);
    object.read("shared_by", cache.shared_by);
  }
  static void read_members(Object& object, Host::Nic& nic) {
    object.read("name", nic.name);
    object.read("speed_mbps", nic.speed_mbps);
    object.read("numa", nic.numa);
  }
  static void read_members(Object& object, Host::Gpu& gpu) {
    object.read("pci", gpu.pci);
    object.read("device", gpu.device);
    object.read("numa", gpu.numa);
  }
  static void read_members(Object& object, Host& host) {
    object.read("name", host.name);
    object.read("sockets", host.sockets);
    object.read("cores", host.cores);
    object.read("cpus", host.cpus);
    object.read("numa", host.numa);
    object.read("caches", host.caches);
    object.read("nics", host.nics);
    object.read("gpus", host.gpus);
  }

  const json& value_;
  const std::string path_;
  Status* const status_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace

std::string to_json(const Topology& topology) {
  const json value = {{"hosts", json_of(topology.hosts)}};
  return json_text(value, 2);
}

Result<Topology> topology_from_json(std::string_view text) {
  const Result<json> value = parse_json("The topology", text);
  if (!value.ok()) return value.status();
  Topology topology;
  Status status;
  {
    Object object(*value, "", &status);
    object.read("hosts", topology.hosts);
  }
  if (!status.ok()) return status;
  return topology;
}

Result<Topology> topology_of(const Environment& env, const std::string& sysfs_root,
                             const std::string& procfs_root) {
  const auto path = env.get("WEFT_TOPOLOGY");
  if (!path) return discover_topology(sysfs_root, procfs_root);
  const std::string where = concat("WEFT_TOPOLOGY=", *path);
  const Result<std::string> text = read_regular(*path);
  if (!text.ok()) return text.status().within(where);
  Result<Topology> topology = topology_from_json(*text);
  if (!topology.ok()) return topology.status().within(where);
  return topology;
}

}  // namespace weft
