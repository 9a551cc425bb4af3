#include "rendezvous/pmi2.h"

#include <gtest/gtest.h>

namespace hv::rendezvous {
namespace {

TEST(Pmi2Value, KeysAndEscapes) {
  std::string reply = "cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b=c;last=x";
  EXPECT_EQ(pmi2_value(reply, "cmd"), "kvs-get-response");
  EXPECT_EQ(pmi2_value(reply, "rc"), "0");
  EXPECT_EQ(pmi2_value(reply, "value"), "a;b=c");
  EXPECT_EQ(pmi2_value(reply, "last"), "x");
  EXPECT_EQ(pmi2_value(reply, "fou"), "");
  for (const char* text : {"", ";", "=", "=;", ";;", "a", "a=", "=b;"}) {
    EXPECT_EQ(pmi2_value(text, "value"), "") << text;
  }
}

}  // namespace
}  // namespace hv::rendezvous
