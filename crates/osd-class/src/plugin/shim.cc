// The class API of a Ceph OSD in C, for `ffi.rs`.
//
// Every function that Rust calls returns zero or a negated errno. No exception leaves it: an exception of
// Ceph becomes EIO. Data that was read is handed to a sink directly from Ceph's buffers.

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include <rados/objclass.h>

using ceph::bufferlist;

// What OSDs export beyond the public header, as their own classes use it.
namespace ceph {
class real_clock;
using real_time = std::chrono::time_point<real_clock, std::chrono::duration<uint64_t, std::nano>>;
}  // namespace ceph
extern const char *ceph_version_to_str();
extern int cls_cxx_stat2(cls_method_context_t, uint64_t *size, ceph::real_time *mtime);
extern int cls_cxx_write_full(cls_method_context_t, bufferlist *);
extern int cls_cxx_truncate(cls_method_context_t, int offset);
extern int cls_cxx_write_zero(cls_method_context_t, int offset, int length);
extern int cls_cxx_getxattrs(cls_method_context_t, std::map<std::string, bufferlist> *);
extern int cls_cxx_map_clear(cls_method_context_t);
extern int cls_cxx_map_get_vals(cls_method_context_t, const std::string &after,
                                const std::string &prefix, uint64_t limit,
                                std::map<std::string, bufferlist> *, bool *more);
extern int cls_cxx_map_set_vals(cls_method_context_t, const std::map<std::string, bufferlist> *);
extern int cls_cxx_map_remove_key(cls_method_context_t, const std::string &key);
extern uint64_t cls_current_version(cls_method_context_t);

extern "C" {

struct nacre_bytes {
  const char *data;
  size_t length;
};

// Takes a key (empty if there is none) and a value. Both are invalid once it returns.
typedef void (*nacre_sink)(void *place, nacre_bytes key, nacre_bytes value);

// Runs a call, in Rust. Returns zero with the output in `place`, or a negated errno.
int nacre_osd_call(int mode, void *context, nacre_bytes input, nacre_sink sink, void *place);
}

namespace {

constexpr int SUBMIT = 0;
constexpr int INSPECT = 1;

std::string string_of(nacre_bytes bytes) { return std::string(bytes.data, bytes.length); }

// Adds a copy of exactly the needed size. `append` would take a whole page even for a few bytes.
void add(bufferlist &list, nacre_bytes bytes) {
  if (bytes.length) list.push_back(ceph::buffer::copy(bytes.data, bytes.length));
}

bufferlist list_of(nacre_bytes bytes) {
  bufferlist list;
  add(list, bytes);
  return list;
}

void give(nacre_sink sink, void *place, const std::string &key, bufferlist &value) {
  const char *data = value.length() ? value.c_str() : "";
  sink(place, {key.data(), key.size()}, {data, value.length()});
}

template <typename Body>
int guarded(Body body) {
  try {
    int status = body();
    return status < 0 ? status : 0;
  } catch (...) {
    return -EIO;
  }
}

void append(void *place, nacre_bytes, nacre_bytes value) {
  add(*static_cast<bufferlist *>(place), value);
}

int call(int mode, cls_method_context_t context, bufferlist *input, bufferlist *output) {
  return guarded([=] {
    const char *data = input->length() ? input->c_str() : "";
    return nacre_osd_call(mode, context, {data, input->length()}, append, output);
  });
}

int submit(cls_method_context_t context, bufferlist *input, bufferlist *output) {
  return call(SUBMIT, context, input, output);
}

int inspect(cls_method_context_t context, bufferlist *input, bufferlist *output) {
  return call(INSPECT, context, input, output);
}

}  // namespace

extern "C" {

const char *nacre_ceph_version() { return ceph_version_to_str(); }

void nacre_log(int level, const char *text) { cls_log(level, "<cls> nacre: %s", text); }

int nacre_register() {
  return guarded([] {
    cls_handle_t handle;
    cls_method_handle_t method;
    cls_register("nacre", &handle);
    cls_register_cxx_method(handle, "submit", CLS_METHOD_RD | CLS_METHOD_WR, submit, &method);
    return cls_register_cxx_method(handle, "inspect", CLS_METHOD_RD, inspect, &method);
  });
}

int nacre_stat(void *context, uint64_t *size, uint64_t *nanoseconds) {
  return guarded([=] {
    ceph::real_time time;
    int status = cls_cxx_stat2(context, size, &time);
    *nanoseconds = time.time_since_epoch().count();
    return status;
  });
}

uint64_t nacre_current_version(void *context) { return cls_current_version(context); }

int nacre_read(void *context, int offset, int length, nacre_sink sink, void *place) {
  return guarded([=] {
    bufferlist value;
    int status = cls_cxx_read(context, offset, length, &value);
    if (status >= 0) give(sink, place, "", value);
    return status;
  });
}

int nacre_attribute(void *context, const char *name, nacre_sink sink, void *place) {
  return guarded([=] {
    bufferlist value;
    int status = cls_cxx_getxattr(context, name, &value);
    if (status >= 0) give(sink, place, "", value);
    return status;
  });
}

int nacre_attributes(void *context, nacre_sink sink, void *place) {
  return guarded([=] {
    std::map<std::string, bufferlist> found;
    int status = cls_cxx_getxattrs(context, &found);
    if (status >= 0)
      for (auto &[name, value] : found) give(sink, place, name, value);
    return status;
  });
}

int nacre_entry(void *context, nacre_bytes key, nacre_sink sink, void *place) {
  return guarded([=] {
    bufferlist value;
    int status = cls_cxx_map_get_val(context, string_of(key), &value);
    if (status >= 0) give(sink, place, "", value);
    return status;
  });
}

int nacre_range(void *context, nacre_bytes after, nacre_bytes prefix, uint64_t limit,
                nacre_sink sink, void *place, bool *more) {
  return guarded([=] {
    std::map<std::string, bufferlist> found;
    int status = cls_cxx_map_get_vals(context, string_of(after), string_of(prefix), limit, &found,
                                      more);
    if (status >= 0)
      for (auto &[key, value] : found) give(sink, place, key, value);
    return status;
  });
}

int nacre_create(void *context) {
  return guarded([=] { return cls_cxx_create(context, false); });
}

int nacre_remove(void *context) {
  return guarded([=] { return cls_cxx_remove(context); });
}

int nacre_write(void *context, int offset, nacre_bytes data) {
  return guarded([=] {
    bufferlist list = list_of(data);
    return cls_cxx_write(context, offset, data.length, &list);
  });
}

int nacre_write_full(void *context, nacre_bytes data) {
  return guarded([=] {
    bufferlist list = list_of(data);
    return cls_cxx_write_full(context, &list);
  });
}

int nacre_zero(void *context, int offset, int length) {
  return guarded([=] { return cls_cxx_write_zero(context, offset, length); });
}

int nacre_truncate(void *context, int size) {
  return guarded([=] { return cls_cxx_truncate(context, size); });
}

int nacre_set_attribute(void *context, const char *name, nacre_bytes value) {
  return guarded([=] {
    bufferlist list = list_of(value);
    return cls_cxx_setxattr(context, name, &list);
  });
}

int nacre_clear_map(void *context) {
  return guarded([=] { return cls_cxx_map_clear(context); });
}

int nacre_set_entries(void *context, const nacre_bytes *keys, const nacre_bytes *values,
                      size_t count) {
  return guarded([=] {
    std::map<std::string, bufferlist> entries;
    for (size_t i = 0; i < count; i++) entries[string_of(keys[i])] = list_of(values[i]);
    return cls_cxx_map_set_vals(context, &entries);
  });
}

int nacre_remove_entry(void *context, nacre_bytes key) {
  return guarded([=] { return cls_cxx_map_remove_key(context, string_of(key)); });
}
}
