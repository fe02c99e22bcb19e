#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nestor/launch/cluster/child_process.h>
#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/error.h>

namespace nestor::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

class ClusterChildProcess : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  ChildProcess::Options shell(const std::string& script) {
    ChildProcess::Options options;
    options.arguments = {"/bin/sh", "-c", script};
    options.log = log;
    return options;
  }
  std::string logged() const {
    std::ifstream file(log);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// How a script ends, in words.
  std::string end_of(const std::string& script) {
    std::promise<std::string> end;
    ChildProcess child(shell(script), [&](const std::string& cause) { end.set_value(cause); });
    return end.get_future().get();
  }
  /// Until the process is gone or a zombie that its new parent has not reaped yet.
  static bool gone(std::int64_t pid) {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    for (auto until = steady_clock::now() + std::chrono::seconds(20); start_time_of(pid) != 0;) {
      if (steady_clock::now() > until) return false;
      never.wait_for(lock, milliseconds(2));
    }
    return true;
  }

  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("child-process-" + std::to_string(::getpid()));
  const std::filesystem::path log = folder / "log";
};

TEST_F(ClusterChildProcess, TellsItsEndInWords) {
  EXPECT_EQ(end_of("exit 0"), "exit code 0");
  EXPECT_EQ(end_of("exit 3"), "exit code 3");
  EXPECT_EQ(end_of("kill -KILL $$"), "signal 9 (Killed)");
  EXPECT_EQ(end_of("kill -ABRT $$"), "signal 6 (Aborted)");
  EXPECT_EQ(end_of("kill -SEGV $$"), "signal 11 (Segmentation fault)");
}

TEST_F(ClusterChildProcess, HandsOverInputVariablesAndOutput) {
  ASSERT_EQ(::setenv("NESTOR_TEST_INHERITED", "old", 1), 0);
  auto options =
      shell("read line; echo \"$line/$NESTOR_TEST_INHERITED/$NESTOR_TEST_NEW\"; read more || echo end; echo err >&2");
  options.input = "secret\n";
  options.environment = {"NESTOR_TEST_INHERITED=new", "NESTOR_TEST_NEW=a b"};
  std::ofstream(log) << "before\n";
  ChildProcess child(options, [](const std::string&) {});
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(logged(), "before\nsecret/new/a b\nend\nerr\n");
  EXPECT_EQ(::getenv("NESTOR_TEST_NEW"), nullptr);
  ::unsetenv("NESTOR_TEST_INHERITED");
}

TEST_F(ClusterChildProcess, IsReapedAtOnce) {
  std::promise<void> ended;
  ChildProcess child(shell("exit 7"), [&](const std::string&) { ended.set_value(); });
  EXPECT_EQ(child.wait(), 7);
  ended.get_future().wait();
  EXPECT_EQ(::kill(child.pid(), 0), -1);  // not even a zombie
  EXPECT_EQ(errno, ESRCH);
  child.signal(SIGKILL);  // reaches nobody
}

TEST_F(ClusterChildProcess, FindsItsProgramAndTakesALargeInput) {
  auto options = shell("");
  options.arguments = {"wc", "-c"};
  options.input = std::string(60'000, 'x');
  ChildProcess child(options, [](const std::string&) {});
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(std::stoi(logged()), 60'000);
}

TEST_F(ClusterChildProcess, IgnoredPipesAreNotInherited) {
  auto before = ::signal(SIGPIPE, SIG_IGN);
  auto ended = end_of("kill -PIPE $$; exit 4");
  ::signal(SIGPIPE, before);
  EXPECT_EQ(ended, "signal 13 (Broken pipe)");
}

TEST_F(ClusterChildProcess, WhatCannotBeStartedIsNamed) {
  int ends = 0;
  auto failure = [&](const ChildProcess::Options& options) -> std::string {
    try {
      ChildProcess child(options, [&](const std::string&) { ++ends; });
    } catch (const WorkError& error) {
      return error.what();
    }
    return "no error";
  };
  ChildProcess::Options options;
  options.arguments = {"/no/such/program", "x"};
  EXPECT_THAT(failure(options), HasSubstr("/no/such/program: cannot be started: No such file"));
  options.arguments = {folder.string()};
  EXPECT_THAT(failure(options), HasSubstr("Permission denied"));
  options.arguments = {"no-such-program-anywhere"};
  EXPECT_THAT(failure(options), HasSubstr("no folder of PATH has it"));
  auto wordy = shell("cat > /dev/null");
  wordy.input = std::string(70'000, 'x');
  EXPECT_THAT(failure(wordy), HasSubstr("longer than 60,000 bytes"));
  auto logless = shell("true");
  logless.log = "/no/such/folder/log";
  EXPECT_THAT(failure(logless), HasSubstr("/no/such/folder/log"));
  EXPECT_EQ(ends, 0);
}

TEST_F(ClusterChildProcess, IsEndedKindlyThenByForce) {
  {
    std::promise<std::string> end;
    auto begin = steady_clock::now();
    auto options = shell("trap 'echo bye; exit 5' TERM; echo ready; while :; do :; done");
    options.end_limit = std::chrono::seconds(20);
    {
      ChildProcess child(options, [&](const std::string& cause) { end.set_value(cause); });
      for (auto until = begin + std::chrono::seconds(20); logged().empty() && steady_clock::now() < until;) {
      }
    }
    EXPECT_EQ(end.get_future().get(), "exit code 5");
    EXPECT_EQ(logged(), "ready\nbye\n");
  }
  std::promise<std::string> end;
  auto options = shell("trap '' TERM; echo deaf; while :; do :; done");
  options.log = folder / "deaf";
  options.end_limit = milliseconds(100);
  {
    ChildProcess child(options, [&](const std::string& cause) { end.set_value(cause); });
    for (auto until = steady_clock::now() + std::chrono::seconds(20); steady_clock::now() < until;) {
      if (std::ifstream(folder / "deaf").get() == 'd') break;
    }
  }
  EXPECT_EQ(end.get_future().get(), "signal 9 (Killed)");
}

TEST_F(ClusterChildProcess, TakesItsWholeGroupAlong) {
  std::promise<void> ended;
  {
    ChildProcess child(shell("sleep 1000 & echo $!; exit 0"), [&](const std::string&) { ended.set_value(); });
    EXPECT_EQ(child.wait(), 0);
    ended.get_future().wait();
  }
  auto grandchild = std::stoll(logged());
  EXPECT_TRUE(gone(grandchild));
}

TEST_F(ClusterChildProcess, GetsSignalsThatTheStarterBlocks) {
  sigset_t all, before;
  sigfillset(&all);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &all, &before), 0);
  std::promise<std::string> end;
  {
    ChildProcess child(shell("exec sleep 1000"), [&](const std::string& cause) { end.set_value(cause); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    child.signal(SIGINT);
    EXPECT_EQ(child.wait(), 128 + SIGINT);
  }
  EXPECT_EQ(end.get_future().get(), "signal 2 (Interrupt)");
}

TEST_F(ClusterChildProcess, DiesWithItsStarter) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto starter = ::fork();
  if (starter == 0) {
    ChildProcess child(shell("exec sleep 1000"), [](const std::string&) {});
    auto pid = child.pid();
    if (::write(ends[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    for (;;) ::pause();
  }
  pid_t orphan = 0;
  ASSERT_EQ(::read(ends[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  EXPECT_NE(start_time_of(orphan), 0u);
  ::kill(starter, SIGKILL);
  ::waitpid(starter, nullptr, 0);
  EXPECT_TRUE(gone(orphan));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(ClusterChildProcess, ManyAtOnceEachTellOnce) {
  constexpr int kCount = 30;
  std::mutex mutex;
  std::vector<std::string> ends;
  {
    std::vector<std::unique_ptr<ChildProcess>> children;
    for (int i = 0; i < kCount; ++i)
      children.push_back(
          std::make_unique<ChildProcess>(shell("exit " + std::to_string(i)), [&](const std::string& cause) {
            std::lock_guard lock(mutex);
            ends.push_back(cause);
          }));
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(children[static_cast<std::size_t>(i)]->wait(), i);
  }
  ASSERT_EQ(ends.size(), static_cast<std::size_t>(kCount));
  for (int i = 0; i < kCount; ++i) EXPECT_THAT(ends, ::testing::Contains("exit code " + std::to_string(i)));
}

}  // namespace
}  // namespace nestor::launch
