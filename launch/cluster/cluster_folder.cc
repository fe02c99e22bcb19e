#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>

namespace nestor::launch {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string trouble() {
  return std::strerror(errno);
}

void write_private(const fs::path& file, const std::string& text) {
  const fs::path aside = file.string() + ".new";
  ::unlink(aside.c_str());
  const int descriptor = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) throw WorkError(file.string(), "cannot be written: " + trouble());
  const bool whole =
      ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(descriptor) == 0;
  const std::string why = trouble();
  ::close(descriptor);
  if (!whole || ::rename(aside.c_str(), file.c_str()) != 0) {
    ::unlink(aside.c_str());
    throw WorkError(file.string(), "cannot be written: " + why);
  }
}

Json read_private(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) throw InputError(file.string(), "cannot be read: " + trouble());
  if ((status.st_mode & 077) != 0)
    throw InputError(file.string(), "others may read it", "chmod 600, or nestor up anew");
  const Json json = Json::parse(read_text(file.string(), 1 << 20), nullptr, false);
  if (!json.is_object()) throw InputError(file.string(), "is damaged", "nestor down, then up");
  return json;
}

std::string text_field(const Json& json, const char* name, const fs::path& file) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string())
    throw InputError(file.string(), std::string("lacks \"") + name + "\"");
  return found->get<std::string>();
}

}  // namespace

std::uint64_t start_time_of(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 2));
  std::string field;
  if (!(fields >> field) || field == "Z" || field == "X") return 0;
  for (int i = 0; i < 18; ++i) fields >> field;  // fields 4 to 21
  std::uint64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

Credentials make_credentials(std::size_t hosts) {
  Credentials credentials{comm::make_link_keys(), comm::make_link_keys(), {}, 0};
  for (std::size_t i = 0; i < hosts; ++i) credentials.hosts.push_back(comm::make_link_keys());
  if (::getrandom(&credentials.secret, sizeof credentials.secret, 0) != sizeof credentials.secret)
    throw WorkError("credentials", "the system gives no randomness: " + trouble());
  return credentials;
}

fs::path ClusterFolder::home() {
  if (const char* home = std::getenv("NESTOR_HOME"); home != nullptr && *home != 0) return fs::absolute(home);
  const char* user = std::getenv("HOME");
  return fs::absolute(fs::path(user != nullptr && *user != 0 ? user : "/tmp") / ".nestor");
}

std::vector<std::string> ClusterFolder::running() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(home(), error)) {
    const std::string name = entry.path().filename().string();
    if (!legal(name) || !entry.is_directory()) continue;
    const ClusterFolder folder(name);
    bool lives = false;
    try {
      lives = folder.living().has_value();
    } catch (const InputError&) {
      // Damaged: who holds the lock lives all the same.
    }
    if (lives || folder.head_pid() != 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

ClusterFolder ClusterFolder::find_running(const std::string& name) {
  if (!name.empty() && ClusterFolder(name).living()) return ClusterFolder(name);
  const auto names = running();
  if (name.empty() && names.size() == 1) return ClusterFolder(names.front());
  const std::string hint =
      names.empty() ? "start one with nestor up" : fmt::format("there are: {}", fmt::join(names, ", "));
  if (name.empty()) throw InputError("cluster", names.empty() ? "none runs" : "several run: name one", hint);
  throw InputError("cluster " + name, "does not run", hint);
}

bool ClusterFolder::legal(const std::string& name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  return !name.empty() && name.size() <= 64 && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), plain);
}

ClusterFolder::ClusterFolder(const std::string& name) : name_(name), path_(home() / name) {
  if (!legal(name)) throw InputError("cluster", "\"" + one_line(name, 80) + "\" is no name", kNameHint);
}

void ClusterFolder::make() const {
  std::error_code error;
  fs::create_directories(home(), error);
  for (const fs::path& folder : {path_, path_ / "keys", path_ / "logs"})
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      throw InputError(folder.string(), "cannot be made: " + trouble(), "set NESTOR_HOME to a folder of yours");
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0 || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0)
    throw InputError(path_.string(), "others may enter it", "chmod 700, or set NESTOR_HOME");
}

ClusterFolder::Lock::Lock(const fs::path& file) {
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  held_ = descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
}

void ClusterFolder::Lock::sign() const {
  const std::string text = fmt::format("{} {}\n", ::getpid(), start_time_of(::getpid()));
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) < 0)
    throw WorkError("lock", "cannot be written: " + trouble());
}

std::int64_t ClusterFolder::head_pid() const {
  std::int64_t pid = 0;
  std::uint64_t started = 0;
  // Not by taking the lock: a head that starts just now would find it held.
  std::ifstream(lock_file()) >> pid >> started;
  return started != 0 && start_time_of(pid) == started ? pid : 0;
}

ClusterFolder::Lock::~Lock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ClusterFolder::write_cluster_file(const std::string& text) const {
  write_private(cluster_file(), text);
}

void ClusterFolder::write(const Credentials& credentials) const {
  const auto keys = [&](const std::string& owner, const comm::LinkKeys& pair) {
    write_private(path_ / "keys" / owner, Json{{"public", pair.public_key}, {"secret", pair.secret_key}}.dump() + "\n");
  };
  keys("head", credentials.head);
  keys("client", credentials.client);
  for (std::size_t i = 0; i < credentials.hosts.size(); ++i) keys("host" + std::to_string(i), credentials.hosts[i]);
  write_private(path_ / "keys" / "tensors", Json{{"secret", fmt::format("{:016x}", credentials.secret)}}.dump() + "\n");
}

comm::LinkKeys ClusterFolder::read_keys(const std::string& owner) const {
  const fs::path file = path_ / "keys" / owner;
  const Json json = read_private(file);
  return {text_field(json, "public", file), text_field(json, "secret", file)};
}

Credentials ClusterFolder::read_credentials() const {
  Credentials credentials{read_keys("head"), read_keys("client"), {}, 0};
  for (std::size_t i = 0; fs::exists(path_ / "keys" / ("host" + std::to_string(i))); ++i)
    credentials.hosts.push_back(read_keys("host" + std::to_string(i)));
  const fs::path file = path_ / "keys" / "tensors";
  const std::string digits = text_field(read_private(file), "secret", file);
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), credentials.secret, 16);
  if (error != std::errc() || rest != digits.data() + digits.size() || digits.empty())
    throw InputError(file.string(), "is damaged", "nestor down, then up");
  return credentials;
}

void ClusterFolder::write(const ClusterState& state) const {
  write_private(path_ / "state.json", Json{{"format", "nestor.cluster-state/1"},
                                           {"endpoint", state.endpoint},
                                           {"version", state.version},
                                           {"pid", state.pid},
                                           {"started", state.started}}
                                              .dump(2) +
                                          "\n");
}

std::optional<ClusterState> ClusterFolder::living() const {
  const fs::path file = path_ / "state.json";
  if (!fs::exists(file)) return std::nullopt;
  const Json json = read_private(file);
  if (!json.contains("pid") || !json["pid"].is_number_integer() || !json.contains("started") ||
      !json["started"].is_number_unsigned())
    return std::nullopt;
  ClusterState state{text_field(json, "endpoint", file), text_field(json, "version", file), json["pid"],
                     json["started"]};
  if (start_time_of(state.pid) != state.started) return std::nullopt;
  return state;
}

void ClusterFolder::forget() const {
  std::error_code error;
  fs::remove(path_ / "state.json", error);
  fs::remove_all(path_ / "keys", error);
}

}  // namespace nestor::launch
