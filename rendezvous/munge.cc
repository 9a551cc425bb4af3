#include "rendezvous/munge.h"

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace hv::rendezvous {

namespace {

using base::Code;
using base::fail;
using base::Result;

// libmunge's interface, as munge.h has it: the version of the library is part of its name.
constexpr const char* kLibrary = "libmunge.so.2";
constexpr int kOptUidRestriction = 9;
struct Context;

struct Library {
  int (*encode)(char** credential, Context*, const void* data, int size) = nullptr;
  int (*decode)(const char* credential, Context*, void** data, int* size, uid_t*, gid_t*) = nullptr;
  Context* (*make)() = nullptr;
  void (*destroy)(Context*) = nullptr;
  int (*set)(Context*, int option, ...) = nullptr;
  const char* (*explain)(int error) = nullptr;
  std::string missing;
};

template <class Function>
void find(void* handle, const char* name, Library& library, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr) library.missing = std::string(kLibrary) + " has no " + name;
}

Library load() {
  Library library;
  void* handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    library.missing = why != nullptr ? why : kLibrary;
    return library;
  }
  find(handle, "munge_encode", library, library.encode);
  find(handle, "munge_decode", library, library.decode);
  find(handle, "munge_ctx_create", library, library.make);
  find(handle, "munge_ctx_destroy", library, library.destroy);
  find(handle, "munge_ctx_set", library, library.set);
  find(handle, "munge_strerror", library, library.explain);
  return library;
}

const Library& munge() {
  static const auto& library = *new Library(load());  // threads may need it until the very end
  return library;
}

}  // namespace

Result<std::string> munge_encode(base::ByteSpan secret) {
  const auto& library = munge();
  if (!library.missing.empty()) return fail(Code::kUnavailable, "munge: " + library.missing);
  Context* context = library.make();
  if (context == nullptr) return fail(Code::kUnavailable, "munge: no memory");
  char* text = nullptr;
  int error = library.set(context, kOptUidRestriction, ::getuid());
  if (error == 0) {
    error = library.encode(&text, context, secret.data(), static_cast<int>(secret.size()));
  }
  library.destroy(context);
  if (error != 0) {
    return fail(Code::kUnavailable, std::string("munge: ") + library.explain(error));
  }
  std::string credential(text);
  std::free(text);
  return credential;
}

Result<base::Bytes> munge_decode(const std::string& credential) {
  const auto& library = munge();
  if (!library.missing.empty()) return fail(Code::kUnavailable, "munge: " + library.missing);
  void* data = nullptr;
  int size = 0;
  uid_t user = 0;
  gid_t group = 0;
  int error = library.decode(credential.c_str(), nullptr, &data, &size, &user, &group);
  base::Bytes bytes;
  if (data != nullptr) {
    auto* begin = static_cast<const std::byte*>(data);
    bytes.assign(begin, begin + size);
    ::explicit_bzero(data, static_cast<std::size_t>(size));
    std::free(data);
  }
  if (error != 0) return fail(Code::kAuth, std::string("munge: ") + library.explain(error));
  if (user != ::getuid()) {
    return fail(Code::kAuth, "munge: a credential of user " + std::to_string(user));
  }
  return bytes;
}

Result<void> munge_is_there() {
  auto tried = munge_encode({});
  if (!tried) return fail(tried.error());
  return {};
}

}  // namespace hv::rendezvous
