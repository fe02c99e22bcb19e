#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/error.h>

namespace nestor::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ClusterFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(home);
    if (const char* value = std::getenv("NESTOR_HOME")) before = value;
    ::setenv("NESTOR_HOME", home.c_str(), 1);
  }
  void TearDown() override {
    if (before.empty())
      ::unsetenv("NESTOR_HOME");
    else
      ::setenv("NESTOR_HOME", before.c_str(), 1);
    std::filesystem::remove_all(home);
  }
  /// A cluster whose head is this process.
  ClusterFolder run(const std::string& name) {
    ClusterFolder folder(name);
    folder.make();
    folder.write(ClusterState{"tcp://127.0.0.1:7700", "0.1.0", ::getpid(), start_time_of(::getpid())});
    return folder;
  }
  static unsigned mode(const std::filesystem::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777u : 0;
  }
  template <class Work>
  static std::string refusal(Work work) {
    try {
      work();
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }

  const std::filesystem::path home =
      std::filesystem::path(::testing::TempDir()) / ("cluster-folder-" + std::to_string(::getpid()));
  std::string before;
};

TEST_F(ClusterFolderTest, KeepsSecretsForTheirOwnerAlone) {
  ::umask(022);
  ClusterFolder folder("lab");
  folder.make();
  folder.make();  // again is fine
  EXPECT_EQ(folder.path(), home / "lab");
  EXPECT_EQ(mode(folder.path()), 0700u);
  auto credentials = make_credentials(2);
  folder.write(credentials);
  folder.write(ClusterState{"tcp://127.0.0.1:1", "0.1.0", 1, 1});
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.is_directory())
      EXPECT_EQ(mode(entry.path()), 0700u) << entry.path();
    else
      EXPECT_EQ(mode(entry.path()), 0600u) << entry.path();
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_GE(files, 4);

  auto again = folder.read_credentials();
  EXPECT_EQ(again.head.public_key, credentials.head.public_key);
  EXPECT_EQ(again.head.secret_key, credentials.head.secret_key);
  EXPECT_EQ(again.client.secret_key, credentials.client.secret_key);
  ASSERT_EQ(again.hosts.size(), 2u);
  EXPECT_EQ(again.hosts[1].secret_key, credentials.hosts[1].secret_key);
  EXPECT_EQ(again.secret, credentials.secret);
}

TEST_F(ClusterFolderTest, NoTwoClustersShareASecret) {
  auto one = make_credentials(2), other = make_credentials(2);
  EXPECT_NE(one.secret, other.secret);
  EXPECT_NE(one.secret, 0u);
  EXPECT_NE(one.head.secret_key, other.head.secret_key);
  EXPECT_NE(one.hosts[0].secret_key, one.hosts[1].secret_key);
  EXPECT_NE(one.client.secret_key, one.head.secret_key);
  EXPECT_EQ(one.head.public_key.size(), 40u);
}

TEST_F(ClusterFolderTest, RefusesWhatOthersMayRead) {
  ClusterFolder folder("lab");
  folder.make();
  folder.write(make_credentials(1));
  ::chmod(folder.path().c_str(), 0750);
  EXPECT_THAT(refusal([&] { folder.make(); }), HasSubstr("others may enter it"));
  ::chmod(folder.path().c_str(), 0700);
  ::chmod((folder.path() / "keys" / "head").c_str(), 0640);
  EXPECT_THAT(refusal([&] { folder.read_credentials(); }), HasSubstr("others may read it"));
}

TEST_F(ClusterFolderTest, RefusesAFileInItsPlaceAndNamesThatAreNone) {
  std::ofstream(home / "taken") << "x";
  ::chmod((home / "taken").c_str(), 0600);
  EXPECT_THAT(refusal([] { ClusterFolder("taken").make(); }), HasSubstr("taken"));
  for (std::string name : {"", ".", "..", "../x", "a/b", ".hidden", "a b", "a\nb"})
    EXPECT_THAT(refusal([&] { ClusterFolder folder(name); }), HasSubstr("is no name")) << name;
  EXPECT_THAT(refusal([] { ClusterFolder folder(std::string(65, 'a')); }), HasSubstr("is no name"));
}

TEST_F(ClusterFolderTest, FindsTheOnlyClusterThatRuns) {
  EXPECT_THAT(ClusterFolder::running(), IsEmpty());
  EXPECT_THAT(refusal([] { ClusterFolder::find_running(""); }), HasSubstr("none runs"));
  run("lab");
  std::filesystem::create_directory(home / ".cache");  // no cluster
  std::filesystem::create_directory(home / "empty");
  EXPECT_THAT(ClusterFolder::running(), ElementsAre("lab"));
  EXPECT_EQ(ClusterFolder::find_running("").name(), "lab");
  run("attic");
  EXPECT_THAT(ClusterFolder::running(), ElementsAre("attic", "lab"));
  EXPECT_THAT(refusal([] { ClusterFolder::find_running(""); }), HasSubstr("attic, lab"));
  EXPECT_EQ(ClusterFolder::find_running("attic").name(), "attic");
  EXPECT_THAT(refusal([] { ClusterFolder::find_running("cellar"); }), HasSubstr("attic, lab"));
}

TEST_F(ClusterFolderTest, ADeadHeadsStateIsStale) {
  auto folder = run("lab");
  ASSERT_TRUE(folder.living().has_value());
  EXPECT_EQ(folder.living()->endpoint, "tcp://127.0.0.1:7700");
  EXPECT_EQ(folder.living()->pid, ::getpid());
  // The same number, another process: it started at another time.
  folder.write(ClusterState{"tcp://127.0.0.1:7700", "0.1.0", ::getpid(), start_time_of(::getpid()) - 1});
  EXPECT_FALSE(folder.living().has_value());

  auto child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  folder.write(ClusterState{"tcp://127.0.0.1:7700", "0.1.0", child, start_time_of(child)});
  EXPECT_TRUE(folder.living().has_value());
  ::kill(child, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(folder.living().has_value());  // a zombie is dead
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(folder.living().has_value());
  EXPECT_THAT(ClusterFolder::running(), IsEmpty());
}

TEST_F(ClusterFolderTest, ADamagedClusterHidesNoOther) {
  run("lab");
  auto torn = run("torn");
  std::ofstream(torn.path() / "state.json") << "{\"pid\": ";
  auto odd = run("odd");
  std::ofstream(odd.path() / "state.json") << "{\"pid\": \"x\", \"started\": -1}";
  EXPECT_THAT(ClusterFolder::running(), ElementsAre("lab"));
  EXPECT_EQ(ClusterFolder::find_running("").name(), "lab");
  torn.write(make_credentials(1));
  std::ofstream(torn.path() / "keys" / "tensors") << "{\"secret\": \"no number\"}";
  EXPECT_THAT(refusal([&] { torn.read_credentials(); }), HasSubstr("tensors"));
}

TEST_F(ClusterFolderTest, TheLockIsHeldByOneAndFreedByDeath) {
  ClusterFolder folder("lab");
  folder.make();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto other = ::fork();
  if (other == 0) {
    ClusterFolder::Lock lock(folder.lock_file());
    char held = lock.held() ? 'y' : 'n';
    if (::write(ends[1], &held, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char held = 0;
  ASSERT_EQ(::read(ends[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_FALSE(ClusterFolder::Lock(folder.lock_file()).held());
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  {
    ClusterFolder::Lock mine(folder.lock_file());
    EXPECT_TRUE(mine.held());
    EXPECT_FALSE(ClusterFolder::Lock(folder.lock_file()).held());
  }
  EXPECT_TRUE(ClusterFolder::Lock(folder.lock_file()).held());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(ClusterFolderTest, ForgetsSecretsAndKeepsLogs) {
  auto folder = run("lab");
  folder.write(make_credentials(1));
  std::ofstream(folder.log("agent0")) << "words\n";
  folder.forget();
  folder.forget();  // twice is fine
  EXPECT_FALSE(folder.living().has_value());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "keys" / "head"));
  EXPECT_TRUE(std::filesystem::exists(folder.log("agent0")));
  folder.make();
  EXPECT_NO_THROW(folder.write(make_credentials(1)));  // up again
}

}  // namespace
}  // namespace nestor::launch
