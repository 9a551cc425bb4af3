// A struct that travels lists its fields once, and codec.h walks that list in both directions.
#pragma once

#define HV_FIELDS(...)                     \
  template <class Self, class Visitor>     \
  static void visit(Self& s, Visitor& v) { \
    v(__VA_ARGS__);                        \
  }
#define HV_NO_FIELDS                   \
  template <class Self, class Visitor> \
  static void visit(Self&, Visitor&) {}
