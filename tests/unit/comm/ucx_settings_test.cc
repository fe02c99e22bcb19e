// What a UCX end is opened with: devices, ports, transports, addresses.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <nestor/comm/ucx.h>

#include "ucx_ends.h"

namespace nestor::comm {
namespace {

using test::soon;

/// Ports that this process listens on.
std::set<int> listening() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  std::set<int> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string index, local, remote, state, queue, timer, retransmit, uid, timeout, inode;
      words >> index >> local >> remote >> state >> queue >> timer >> retransmit >> uid >> timeout >> inode;
      if (state == "0A" && own.count(inode) != 0)
        ports.insert(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

TEST(UcxSettings, SharedMemoryOpensNoPortAndTcpStaysInItsRange) {
  const std::set<int> before = listening();
  UcxOptions options;
  options.transports = "posix,cma,self";
  auto shared = open_ucx_channel(0, 2, options);
  EXPECT_EQ(listening(), before);
  options.transports = "tcp,self";
  options.net_devices = "lo";
  options.port_range = "47310-47390";
  auto tcp = open_ucx_channel(0, 2, options);
  std::set<int> opened = listening();
  for (int port : before) opened.erase(port);
  EXPECT_EQ(opened.size(), 1u) << "one device, one port";
  for (int port : opened) {
    EXPECT_GE(port, 47310);
    EXPECT_LE(port, 47390);
  }
}

TEST(UcxSettings, WhatIsNotThereIsRefusedWithWhatIs) {
  const auto reason = [](const UcxOptions& options) -> std::string {
    try {
      open_ucx_channel(0, 2, options);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  };
  UcxOptions options;
  options.transports = "tcp,self";
  for (const char* name : {"eth77", "../lo", "lo,eth77", ".."}) {
    options.net_devices = name;
    EXPECT_NE(reason(options).find("no network device"), std::string::npos) << name << ": " << reason(options);
    EXPECT_NE(reason(options).find("lo"), std::string::npos);
  }
  options.net_devices = "lo";
  EXPECT_EQ(reason(options), "");
  options.net_devices.clear();
  for (const char* name : {"warp", "tcp,warp", "self", "cma,self"}) {
    options.transports = name;
    EXPECT_NE(reason(options).find("transport"), std::string::npos) << name << ": " << reason(options);
  }
}

TEST(UcxSettings, AddressesAreCheckedBeforeTheyAreUsed) {
  UcxOptions options;
  options.transports = "posix,cma,self";
  auto a = open_ucx_channel(0, 3, options), b = open_ucx_channel(1, 3, options);
  const std::string good = b->address();
  EXPECT_THROW(a->set_peer(1, ""), std::invalid_argument);
  EXPECT_THROW(a->set_peer(1, good.substr(0, good.size() - 1)), std::invalid_argument);
  EXPECT_THROW(a->set_peer(1, std::string(300, 'x')), std::invalid_argument);
  for (std::size_t i = 40; i < good.size(); i += 7) {
    std::string torn = good;
    torn[i] = static_cast<char>(torn[i] ^ 4);
    EXPECT_THROW(a->set_peer(1, torn), std::invalid_argument) << i;
  }
  EXPECT_THROW(a->set_peer(2, good), std::invalid_argument) << "another lane's";
  EXPECT_THROW(a->set_peer(0, a->address()), std::invalid_argument);
  EXPECT_THROW(a->set_peer(3, good), std::invalid_argument);
  EXPECT_EQ(a->send(1, {1, 1, 1}, {}, soon()).code, Code::misuse) << "no address yet";
  a->set_peer(1, good);
  a->set_peer(1, good);  // again: nothing happens
  ASSERT_TRUE(b->post_recv(0, {1, 1, 1}).ok());
  ASSERT_TRUE(a->send(1, {1, 1, 1}, {}, soon()).ok());
  Message message;
  EXPECT_TRUE(b->wait(0, {1, 1, 1}, soon(), &message).ok());
}

}  // namespace
}  // namespace nestor::comm
