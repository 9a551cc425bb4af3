#include <gtest/gtest.h>

#include "launcher/line_printer.h"

namespace hv::launcher {
namespace {

std::string add(LinePrinter& printer, std::string_view text, bool eof = false) {
  return std::string(base::as_text(printer.add(base::as_bytes(text), eof)));
}

TEST(LinePrinter, WholeLinesOnly) {
  LinePrinter printer("[0]:");
  EXPECT_EQ(add(printer, "ab"), "");
  EXPECT_EQ(add(printer, "c\nde\nf"), "[0]:abc\n[0]:de\n");
  EXPECT_EQ(add(printer, ""), "");
  EXPECT_EQ(add(printer, "", true), "[0]:f");
}

TEST(LinePrinter, LastLineWithoutItsEnd) {
  LinePrinter printer("> ");
  EXPECT_EQ(add(printer, "a\nb", true), "> a\n> b");
  LinePrinter nothing("> ");
  EXPECT_EQ(add(nothing, "", true), "");
  LinePrinter complete("> ");
  EXPECT_EQ(add(complete, "a\n", true), "> a\n");
}

TEST(LinePrinter, ProgressBarsAreLive) {
  LinePrinter printer("> ");
  EXPECT_EQ(add(printer, "10%\r"), "> 10%\r");
  EXPECT_EQ(add(printer, "20%\r30%\r"), "> 20%\r> 30%\r");
  EXPECT_EQ(add(printer, "\ndone\n"), "\n> done\n");
}

TEST(LinePrinter, CarriageReturnNewlineIsOneEnd) {
  LinePrinter printer("> ");
  EXPECT_EQ(add(printer, "a\r\nb\r\n"), "> a\r\n> b\r\n");
  EXPECT_EQ(add(printer, "c\r"), "> c\r");
  EXPECT_EQ(add(printer, "\n"), "\n");
  EXPECT_EQ(add(printer, "\n"), "> \n");
}

TEST(LinePrinter, BytesPassUnchangedHoweverTheyAreCut) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7919 >> 3);
  for (std::size_t piece : {1U, 2U, 3U, 17U, 4096U}) {
    LinePrinter printer("");
    std::string shown;
    for (std::size_t at = 0; at < text.size(); at += piece)
      shown += add(printer, text.substr(at, piece));
    shown += add(printer, "", true);
    EXPECT_EQ(shown, text) << piece;
  }
}

TEST(LinePrinter, TheTimeStandsInFrontOfEachLine) {
  LinePrinter printer("[0]:");
  auto bytes = printer.add(base::as_bytes("a\nb"), false, "12:00 ");
  EXPECT_EQ(base::as_text(bytes), "12:00 [0]:a\n");
  bytes = printer.add(base::as_bytes("c\n"), false, "12:01 ");
  EXPECT_EQ(base::as_text(bytes), "12:01 [0]:bc\n");
}

TEST(Ranks, Lists) {
  EXPECT_EQ(*parse_ranks("0"), (std::vector<int>{0}));
  EXPECT_EQ(*parse_ranks("0,2-4, 9"), (std::vector<int>{0, 2, 3, 4, 9}));
  for (const char* wrong : {"", "a", "3-1", "1-", "-2", "1,,2"}) EXPECT_FALSE(parse_ranks(wrong));
}

TEST(LinePrinter, LongLinesComeInPiecesWithOnePrefix) {
  LinePrinter printer("> ");
  std::string part(LinePrinter::kMaxHeld / 2 + 1, 'x');
  EXPECT_EQ(add(printer, part), "");
  EXPECT_EQ(add(printer, part), "> " + part + part);
  EXPECT_EQ(add(printer, "end\nnext\n"), "end\n> next\n");
}

TEST(Prefix, Styles) {
  using rendezvous::Stream;
  EXPECT_EQ(make_prefix(*parse_prefix("rank"), 3, "h1", Stream::kStdout), "[3]<stdout>:");
  EXPECT_EQ(make_prefix(*parse_prefix("host"), 3, "h1", Stream::kStderr), "[h1]<stderr>:");
  EXPECT_EQ(make_prefix(*parse_prefix("host,rank"), 3, "::1", Stream::kStdout), "[3@::1]<stdout>:");
  EXPECT_EQ(make_prefix(*parse_prefix("none"), 3, "h1", Stream::kStdout), "");
  EXPECT_EQ(make_prefix(*parse_prefix("time"), 3, "h1", Stream::kStdout), "");
  EXPECT_TRUE(parse_prefix("rank,time")->time);
  EXPECT_FALSE(parse_prefix("ranks"));
  EXPECT_FALSE(parse_prefix(""));
}

}  // namespace
}  // namespace hv::launcher
