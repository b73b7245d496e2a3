// The names of TJIT_LOG.
#include <gtest/gtest.h>

#include "support/env.h"
#include "support/log.h"

namespace tjit {
namespace {

std::uint32_t Bit(LogChannel channel) {
  return 1u << static_cast<unsigned>(channel);
}

TEST(LogChannelTest, OnlyWarningsAreOnUnasked) {
  EXPECT_TRUE(LogsTo(LogChannel::kWarning));
  EXPECT_FALSE(LogsTo(LogChannel::kCompile));
  EXPECT_FALSE(LogsTo(LogChannel::kFlush));
}

TEST(LogChannelTest, NamesSwitchOnAndOff) {
  std::uint32_t channels = Bit(LogChannel::kWarning);
  EXPECT_TRUE(ParseLogChannels("flush,detect,-warning", &channels));
  EXPECT_EQ(channels, Bit(LogChannel::kFlush) | Bit(LogChannel::kDetect));
  EXPECT_TRUE(ParseLogChannels("v,-flush", &channels));
  EXPECT_EQ(channels & Bit(LogChannel::kFlush), 0u);
  EXPECT_NE(channels & Bit(LogChannel::kMemory), 0u);
}

TEST(LogChannelTest, UnknownNamesChangeNothing) {
  for (const char* text : {"", "flsh", "flush,", ",flush", "flush detect",
                           "flush,--detect", "1"}) {
    std::uint32_t channels = 1;
    EXPECT_FALSE(ParseLogChannels(text, &channels)) << text;
    EXPECT_EQ(channels, 1u) << text;
  }
}

TEST(LogChannelTest, ABadValueNamesTheAccepted) {
  const char* const environment[] = {"TJIT_LOG=flsh", nullptr};
  const EnvOptions o = ParseEnvironment(environment);
  EXPECT_EQ(o.log, "");
  ASSERT_EQ(o.complaints.size(), 1u);
  EXPECT_NE(o.complaints[0].find("TJIT_LOG=flsh is not used, accepted is some "
                                 "of v, compile, detect, flush, memory, "
                                 "warning"),
            std::string::npos)
      << o.complaints[0];
}

}  // namespace
}  // namespace tjit
