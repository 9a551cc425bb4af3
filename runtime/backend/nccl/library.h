// A shared library that is opened at run time, the first of several names that is there.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/base/result.h"

namespace hv::runtime::nccl {

class Library {
 public:
  // `path`: the only one to try; "": the names in order. The error lists what was tried.
  static base::Result<Library> open(const std::string& path, const std::vector<std::string>& names);

  // Null where there is no such symbol.
  template <class Function>
  Function* find(const char* symbol) const {
    return reinterpret_cast<Function*>(address(symbol));
  }
  // Fills in a function pointer and notes what is lacking.
  template <class Function>
  void need(Function*& to, const char* symbol) {
    to = find<Function>(symbol);
    if (to == nullptr) lacking_.emplace_back(symbol);
  }
  const std::vector<std::string>& lacking() const { return lacking_; }
  const std::string& path() const { return path_; }

 private:
  void* address(const char* symbol) const;
  void* handle_ = nullptr;
  std::string path_;
  std::vector<std::string> lacking_;
};

}  // namespace hv::runtime::nccl
