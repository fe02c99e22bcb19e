#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include <nestor/launch/cluster/settings.h>
#include <nestor/launch/error.h>

namespace nestor::launch {
namespace {

/// An environment variable for as long as it lives.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_.c_str()); }

 private:
  const std::string name_;
};

TEST(ClusterSettings, EachHasAVariableAnOptionAndAMeaning) {
  std::set<std::string> options;
  for (const ClusterSettings::Name& name : ClusterSettings::names()) {
    EXPECT_TRUE(name.variable.starts_with("NESTOR_"));
    EXPECT_TRUE(name.option.starts_with("--") && name.option.find('_') == std::string::npos) << name.option;
    EXPECT_FALSE(name.meaning.empty());
    EXPECT_TRUE(options.insert(name.option).second) << name.option;
  }
  EXPECT_TRUE(options.contains("--silence-ms"));
  EXPECT_TRUE(options.contains("--port-range"));
}

TEST(ClusterSettings, AnOptionGoesBeforeTheEnvironmentAndThatBeforeTheDefault) {
  const Variable silence("NESTOR_SILENCE_MS", "2500"), devices("NESTOR_NET_DEVICES", "eth1");
  const auto plain = ClusterSettings::from_environment();
  EXPECT_EQ(plain.silence.count(), 2500);
  EXPECT_EQ(plain.net_devices, "eth1");
  EXPECT_EQ(plain.reap.count(), ClusterSettings().reap.count());
  EXPECT_EQ(ClusterSettings::from_environment({{"NESTOR_SILENCE_MS", "700"}}).silence.count(), 700);
}

TEST(ClusterSettings, WhatMakesNoSenseIsNamedAsItWasGiven) {
  const auto what = [](const std::map<std::string, std::string>& given) {
    try {
      static_cast<void>(ClusterSettings::from_environment(given));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_TRUE(what({{"NESTOR_REAP_MS", "soon"}}).starts_with("--reap-ms: is \"soon\""));
  EXPECT_TRUE(what({{"NESTOR_MAX_RESTARTS", "0"}}).starts_with("--max-restarts: is \"0\""));
  EXPECT_TRUE(what({{"NESTOR_SILENCE_MS", "300"}}).starts_with("--silence-ms: must be longer"));
  for (const char* range : {"abc", "70000-80000", "1-2-3", "47100-47000", "0-5", "-5", "5-", "5", "1 - 5"})
    EXPECT_TRUE(what({{"NESTOR_PORT_RANGE", range}}).starts_with("--port-range: is \"")) << range;
  EXPECT_EQ(what({{"NESTOR_PORT_RANGE", "47000-47000"}}), "nothing");
  const Variable bad("NESTOR_REAP_MS", "-1");
  EXPECT_TRUE(what({}).starts_with("NESTOR_REAP_MS: is \"-1\""));
}

TEST(ClusterSettings, OnlyWhatDiffersIsHandedOn) {
  ClusterSettings settings;
  EXPECT_TRUE(settings.environment().empty());
  settings.window_bytes = 1 << 20;
  settings.transports = "tcp,self";
  EXPECT_EQ(settings.environment(), (std::map<std::string, std::string>{{"NESTOR_WINDOW_BYTES", "1048576"},
                                                                        {"NESTOR_TRANSPORTS", "tcp,self"}}));
}

}  // namespace
}  // namespace nestor::launch
