#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nestor/launch/cluster/starters.h>

namespace nestor::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Launch = ClusterFile::Launch;

const ClusterFile::Host kFarHost{"10.0.0.2", 2, "user@10.0.0.2", {{"UCX_NET_DEVICES", "eth1"}}};

/// What a shell makes of a command line: its words, one a line.
std::string words_of_shell(const std::string& line) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> shell(::popen(("printf '<%s>\\n' " + line).c_str(), "r"), &::pclose);
  std::string text;
  char block[4096];
  while (auto count = std::fread(block, 1, sizeof block, shell.get())) text.append(block, count);
  return text;
}

TEST(ClusterStarters, ALocalAgentIsTheProgramItself) {
  EXPECT_THAT(agent_command(Launch::local, kFarHost, "/opt/my nestor", {{"A", "1"}}),
              ElementsAre("/opt/my nestor", "node", "agent"));
  EXPECT_THAT(agent_environment(Launch::local, kFarHost, {{"A", "1"}, {"UCX_NET_DEVICES", "lo"}}),
              ElementsAre("A=1", "UCX_NET_DEVICES=eth1"));
}

TEST(ClusterStarters, SshGetsOneQuotedLine) {
  EXPECT_THAT(agent_command(Launch::ssh, kFarHost, "/opt/nestor", {}),
              ElementsAre("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "user@10.0.0.2", "--",
                          "exec env UCX_NET_DEVICES=eth1 /opt/nestor node agent"));
  EXPECT_THAT(agent_environment(Launch::ssh, kFarHost, {{"A", "1"}}), IsEmpty());
  EXPECT_THAT(agent_command(Launch::ssh, {"node7", 1, "", {}}, "/opt/nestor", {}),
              ElementsAre("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "node7", "--",
                          "exec /opt/nestor node agent"));
}

TEST(ClusterStarters, NothingInAValueIsReadByTheShell) {
  const std::string nasty = "a b'c\"d$(touch /tmp/x)`e`;f\\g&h|i>j\n*k";
  auto command = agent_command(Launch::ssh, {"h", 1, "", {{"V", nasty}}}, "/my dir/nestor;x", {});
  auto line = command.back();
  ASSERT_TRUE(line.starts_with("exec "));
  EXPECT_EQ(words_of_shell(line.substr(5)), "<env>\n<V=" + nasty + ">\n</my dir/nestor;x>\n<node>\n<agent>\n");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("plain-1.2:3/4"), "plain-1.2:3/4");
  EXPECT_EQ(shell_word("~"), "'~'");
}

TEST(ClusterStarters, SrunTakesWordsAsTheyAre) {
  EXPECT_THAT(agent_command(Launch::slurm, kFarHost, "/my dir/nestor", {{"A", "1 2"}}),
              ElementsAre("srun", "--nodes=1", "--ntasks=1", "--overlap", "--unbuffered", "--nodelist=10.0.0.2", "--",
                          "env", "A=1 2", "UCX_NET_DEVICES=eth1", "/my dir/nestor", "node", "agent"));
}

TEST(ClusterStarters, SaysWhatAnEndMeans) {
  EXPECT_THAT(agent_end(Launch::ssh, kFarHost, "/n", "exit code 255"), HasSubstr("no connection to user@10.0.0.2"));
  EXPECT_THAT(agent_end(Launch::ssh, kFarHost, "/n", "exit code 127"), HasSubstr("no /n on 10.0.0.2"));
  EXPECT_THAT(agent_end(Launch::slurm, kFarHost, "/n", "exit code 126"), HasSubstr("cannot be run"));
  EXPECT_EQ(agent_end(Launch::ssh, kFarHost, "/n", "exit code 3"), "exit code 3");
  EXPECT_EQ(agent_end(Launch::local, kFarHost, "/n", "exit code 255"), "exit code 255");
  EXPECT_EQ(agent_end(Launch::ssh, kFarHost, "/n", "signal 9 (Killed)"), "signal 9 (Killed)");
}

TEST(ClusterStarters, WritesABatchScript) {
  ClusterFile cluster;
  cluster.name = "lab";
  cluster.hosts = {{"n1", 2, "", {}}, {"n2", 4, "", {}}};
  EXPECT_EQ(slurm_script(cluster, "/opt/nestor", "/home/a b/lab.yaml"),
            "#!/bin/sh\n"
            "#SBATCH --job-name=lab\n"
            "#SBATCH --nodes=2\n"
            "#SBATCH --nodelist=n1,n2\n"
            "#SBATCH --ntasks-per-node=1\n"
            "#SBATCH --cpus-per-task=4\n"
            "#SBATCH --signal=B:TERM@60\n"
            "#SBATCH --output=lab-%j.log\n"
            "exec /opt/nestor up --foreground --name lab '/home/a b/lab.yaml'\n");
  EXPECT_THAT(slurm_script(cluster, "/n", "f", {{"NESTOR_PORT_RANGE", "1-2"}}),
              HasSubstr("\nexport NESTOR_PORT_RANGE=1-2\n"));
}

TEST(ClusterStarters, KnowsThisMachine) {
  EXPECT_TRUE(is_this_machine("127.0.0.1"));
  EXPECT_TRUE(is_this_machine("localhost"));
  EXPECT_FALSE(is_this_machine("192.0.2.1"));  // for documentation alone (RFC 5737)
  EXPECT_FALSE(is_this_machine("no-such-host.invalid"));
}

TEST(ClusterStarters, FindsAProgramAsAShellDoes) {
  EXPECT_EQ(find_program("/any/where", "/bin"), "/any/where");
  EXPECT_EQ(find_program("no-such-program", "/usr/bin:/bin"), "");
  EXPECT_EQ(find_program("", "/usr/bin:/bin"), "");
  auto folder = std::filesystem::path(::testing::TempDir()) / ("starters-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tool") << "#!/bin/sh\n";
  EXPECT_EQ(find_program("tool", "/nowhere:" + folder.string()), "");  // not executable
  std::filesystem::permissions(folder / "tool", std::filesystem::perms::owner_all);
  EXPECT_EQ(find_program("tool", "/nowhere:" + folder.string()), (folder / "tool").string());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace nestor::launch
