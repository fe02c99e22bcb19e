#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/launch/cluster/cluster_file.h>

namespace nestor::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kLab =
    "format: nestor.cluster/1\n"
    "name: lab\n"
    "head: {host: 10.0.0.1, port: 7700}\n"
    "hosts:\n"
    "  - {host: 10.0.0.1, lanes: 2}\n"
    "  - {host: 10.0.0.2, lanes: 3, ssh: user@10.0.0.2, env: {UCX_NET_DEVICES: eth1}}\n"
    "launch: ssh\n";

std::string cluster_failure(const std::string& text) {
  try {
    read_cluster_file(text, "lab.yaml");
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// kLab with a text replaced.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = kLab;
  auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ClusterFileTest, ReadsTheDocumentedExample) {
  auto file = read_cluster_file(kLab, "lab.yaml");
  EXPECT_EQ(file.name, "lab");
  EXPECT_EQ(file.head_host, "10.0.0.1");
  EXPECT_EQ(file.head_port, 7700);
  EXPECT_EQ(file.launch, ClusterFile::Launch::ssh);
  ASSERT_EQ(file.hosts.size(), 2u);
  EXPECT_EQ(file.lanes(), 5);
  EXPECT_FALSE(file.one_host());
  EXPECT_EQ(file.hosts[0].ssh, "");
  EXPECT_EQ(file.hosts[1].host, "10.0.0.2");
  EXPECT_EQ(file.hosts[1].ssh, "user@10.0.0.2");
  EXPECT_EQ(file.hosts[1].env.at("UCX_NET_DEVICES"), "eth1");
}

TEST(ClusterFileTest, HasDefaults) {
  auto file = read_cluster_file("format: nestor.cluster/1\nhosts: [{host: localhost}]\n", "x.yaml");
  EXPECT_EQ(file.head_host, "127.0.0.1");
  EXPECT_EQ(file.head_port, 0);
  EXPECT_EQ(file.launch, ClusterFile::Launch::local);
  EXPECT_EQ(file.hosts[0].lanes, 1);
  EXPECT_TRUE(file.one_host());
  EXPECT_FALSE(file.name.empty());
}

TEST(ClusterFileTest, NamesWhatIsWrong) {
  EXPECT_THAT(cluster_failure(""), HasSubstr("lab.yaml: is empty"));
  EXPECT_THAT(cluster_failure("format: nestor.cluster/1\nhosts: [\n"), HasSubstr("lab.yaml:3: not YAML"));
  EXPECT_THAT(cluster_failure("hosts: [{host: a}]\n"), HasSubstr("lab.yaml:format: is missing"));
  EXPECT_THAT(cluster_failure(edited("cluster/1", "cluster/2")), HasSubstr("this program reads nestor.cluster/1"));
  EXPECT_THAT(cluster_failure(edited("lanes: 2", "lanes: 0")), HasSubstr("lab.yaml:hosts[0].lanes"));
  EXPECT_THAT(cluster_failure(edited("lanes: 3", "lanes: many")), HasSubstr("lab.yaml:hosts[1].lanes"));
  EXPECT_THAT(cluster_failure(edited("lanes: 3", "lanes: 1000000")), HasSubstr("lab.yaml:hosts[1].lanes"));
  EXPECT_THAT(cluster_failure(edited("port: 7700", "port: 65536")), HasSubstr("lab.yaml:head.port"));
  EXPECT_THAT(cluster_failure(edited("port: 7700", "port: -1")), HasSubstr("lab.yaml:head.port"));
  EXPECT_THAT(cluster_failure(edited("launch: ssh", "launch: pbs")),
              AllOf(HasSubstr("lab.yaml:launch"), HasSubstr("local"), HasSubstr("slurm")));
  EXPECT_THAT(cluster_failure(edited("lanes: 2", "lane: 2")),
              AllOf(HasSubstr("lab.yaml:hosts[0]: unknown key"), HasSubstr("did you mean \"lanes\"?")));
  EXPECT_THAT(cluster_failure(edited("launch: ssh", "lunch: ssh")), HasSubstr("did you mean \"launch\"?"));
  EXPECT_THAT(cluster_failure(edited("{host: 10.0.0.2,", "{host: 10.0.0.1,")), HasSubstr("listed twice: 10.0.0.1"));
  EXPECT_THAT(cluster_failure("format: nestor.cluster/1\nhosts: []\n"), HasSubstr("lab.yaml:hosts"));
  EXPECT_THAT(cluster_failure("format: nestor.cluster/1\nhosts: {host: a}\n"), HasSubstr("lab.yaml:hosts"));
  EXPECT_THAT(cluster_failure("format: nestor.cluster/1\nhosts: [a]\n"), HasSubstr("lab.yaml:hosts[0]"));
  EXPECT_THAT(cluster_failure("format: nestor.cluster/1\nhosts: [{lanes: 2}]\n"), HasSubstr("lab.yaml:hosts[0].host"));
}

TEST(ClusterFileTest, LetsNothingThroughThatASshCommandWouldMisread) {
  EXPECT_THAT(cluster_failure(edited("ssh: user@10.0.0.2", "ssh: -oProxyCommand=x")), HasSubstr("hosts[1].ssh"));
  EXPECT_THAT(cluster_failure(edited("{host: 10.0.0.2,", "{host: \"a;b\",")), HasSubstr("hosts[1].host"));
  EXPECT_THAT(cluster_failure(edited("host: 10.0.0.1, port", "host: \"a b\", port")), HasSubstr("head.host"));
  EXPECT_THAT(cluster_failure(edited("UCX_NET_DEVICES: eth1", "\"A B\": x")), HasSubstr("hosts[1].env"));
  EXPECT_THAT(cluster_failure(edited("UCX_NET_DEVICES: eth1", "\"-i\": x")), HasSubstr("hosts[1].env"));
  EXPECT_THAT(cluster_failure(edited("name: lab", "name: ../lab")), HasSubstr("name"));
}

}  // namespace
}  // namespace nestor::launch
