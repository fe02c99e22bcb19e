#include <algorithm>
#include <cctype>
#include <set>

#include <nestor/launch/cluster/cluster_file.h>
#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/yaml_file.h>
#include <nestor/modules/config_section.h>

namespace nestor::launch {
namespace {

constexpr std::int64_t kMostLanesOfAHost = 1024;
constexpr double kMostOfAResource = 1e15;

bool plausible_host(const std::string& text) {
  return text.size() <= 253 && text.front() != '-' && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == ':' || c == '_' || c == '@';
         });
}

bool variable_name(const std::string& text) {  // it becomes a word of env(1)
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

std::string host_of(modules::ConfigSection& section, const char* key, const std::string& fallback) {
  std::string host = section.text(key, fallback);
  if (!host.empty() && !plausible_host(host))
    section.fail(key, "is no host: \"" + one_line(host, 60) + "\"", "a name or an address");
  return host;
}

ClusterFile::Host read_host(modules::ConfigSection section) {
  ClusterFile::Host host;
  if (!section.has("host")) section.fail("host", "is missing", "a name or an address");
  host.host = host_of(section, "host", "");
  host.lanes = static_cast<std::int32_t>(section.integer("lanes", 1, 1, kMostLanesOfAHost));
  host.ssh = host_of(section, "ssh", "");
  auto env = section.section("env");
  for (const auto& name : env.keys()) {
    if (!variable_name(name))
      section.fail("env", "\"" + one_line(name, 60) + "\" is no variable's name", "letters, digits, _");
    host.env[name] = env.text(name, "");
  }
  env.finish();
  auto resources = section.section("resources");
  for (const auto& name : resources.keys()) {
    if (!variable_name(name))
      section.fail("resources", "\"" + one_line(name, 60) + "\" is no resource's name", "letters, digits, _");
    host.resources[name] = resources.number(name, 0, 0, kMostOfAResource);
  }
  resources.finish();
  section.finish();
  return host;
}

}  // namespace

std::int32_t ClusterFile::lanes() const {
  std::int32_t lanes = 0;
  for (const Host& host : hosts) lanes += host.lanes;
  return lanes;
}

bool ClusterFile::one_host() const {
  return hosts.size() == 1 && launch == Launch::local;
}

std::string ClusterFile::transports() const {
  return one_host() ? "posix,cma,self" : "";
}

ClusterFile read_cluster_file(const std::string& text, const std::string& source) {
  const YAML::Node root = parse_yaml(text, source);
  modules::ConfigSection top(root, source, "");
  if (!top.has("format"))
    throw InputError(source + ":format", "is missing", "the first line is \"format: nestor.cluster/1\"");
  if (auto format = top.text("format", ""); format != "nestor.cluster/1")
    throw InputError(source + ":format", "is \"" + one_line(format, 60) + "\"", "this program reads nestor.cluster/1");
  ClusterFile file;
  file.name = top.text("name", file.name);
  if (!ClusterFolder::legal(file.name))
    top.fail("name", "is no name for a cluster: \"" + one_line(file.name, 80) + "\"", ClusterFolder::kNameHint);
  auto head = top.section("head");
  file.head_host = host_of(head, "host", file.head_host);
  file.head_port = static_cast<std::int32_t>(head.integer("port", 0, 0, 65535));
  head.finish();
  const std::string launch = top.choice("launch", {"local", "ssh", "slurm"});
  file.launch = launch == "ssh"     ? ClusterFile::Launch::ssh
                : launch == "slurm" ? ClusterFile::Launch::slurm
                                    : ClusterFile::Launch::local;
  if (!top.has("hosts")) throw InputError(source + ":hosts", "is missing", "e.g. hosts: [{host: 127.0.0.1, lanes: 2}]");
  const YAML::Node hosts = root["hosts"];
  if (!hosts.IsSequence() || hosts.size() == 0)
    throw InputError(source + ":hosts", "is not a list of hosts", "e.g. hosts: [{host: 127.0.0.1, lanes: 2}]");
  std::set<std::string> seen;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string field = "hosts[" + std::to_string(i) + "]";
    file.hosts.push_back(read_host(modules::ConfigSection(hosts[i], source, field)));
    if (file.launch != ClusterFile::Launch::local && !seen.insert(file.hosts.back().host).second)
      throw InputError(source + ":" + field + ".host", "is listed twice: " + file.hosts.back().host,
                       "give it more lanes");
  }
  top.finish();
  return file;
}

}  // namespace nestor::launch
