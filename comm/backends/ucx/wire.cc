#include <algorithm>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <sys/stat.h>

#include <nestor/comm/backends/ucx/wire.h>

namespace nestor::comm::ucx {

namespace {

constexpr std::uint8_t kLastDType = static_cast<std::uint8_t>(DType::boolean);

/// FNV-1a (Fowler, Noll, Vo): finds torn and mixed-up bytes; it authenticates nothing.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

struct AddressHead {
  std::uint32_t magic;
  std::int32_t lane;
  std::uint64_t incarnation;
  std::uint64_t machine;
  std::int32_t pid;
  std::uint32_t worker_bytes;
  std::uint64_t checksum;  ///< of what follows
};

}  // namespace

bool decode(const void* header, std::size_t length, std::size_t payload, Envelope* out) {
  if (length < sizeof(Envelope)) return false;
  std::memcpy(out, header, sizeof(Envelope));
  if (out->magic != kMagic || out->rank > kMaxRank || out->dtype > kLastDType || out->none > 1) return false;
  if (length != sizeof(Envelope) + out->rank * sizeof(std::int64_t)) return false;
  if (out->parts == 0 ? out->part != 0 || out->rank != 0 : out->part >= out->parts) return false;
  if (out->none != 0 || out->parts == 0) return payload == 0;
  std::uint64_t count = size_of(static_cast<DType>(out->dtype));
  const auto* shape = static_cast<const std::byte*>(header) + sizeof(Envelope);
  bool empty = false;
  for (std::size_t i = 0; i < out->rank; ++i) {
    std::int64_t extent;
    std::memcpy(&extent, shape + i * sizeof(extent), sizeof(extent));
    if (extent < 0) return false;
    empty = empty || extent == 0;
    if (!empty && __builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count)) return false;
  }
  return payload == (empty ? 0 : count);
}

void describe(const Envelope& envelope, const void* header, Descriptor* out) {
  out->dtype = static_cast<DType>(envelope.dtype);
  std::int64_t* extents = out->shape.make(envelope.rank);
  const auto* shape = static_cast<const std::byte*>(header) + sizeof(Envelope);
  for (std::size_t i = 0; i < envelope.rank; ++i)
    std::memcpy(extents + i, shape + i * sizeof(*extents), sizeof(*extents));
}

std::string encode(const EndAddress& address) {
  const AddressHead head{kMagic,
                         address.lane,
                         address.incarnation,
                         address.machine,
                         address.pid,
                         static_cast<std::uint32_t>(address.worker.size()),
                         checksum(address.worker)};
  std::string bytes(sizeof(head), '\0');
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes + address.worker;
}

EndAddress decode(std::string_view bytes) {
  AddressHead head{};
  if (bytes.size() >= sizeof(head)) std::memcpy(&head, bytes.data(), sizeof(head));
  const std::string_view worker = bytes.substr(std::min(bytes.size(), sizeof(head)));
  if (head.magic != kMagic || worker.empty() || head.worker_bytes != worker.size() ||
      head.checksum != checksum(worker)) {
    throw std::invalid_argument("ucx address: " + std::to_string(bytes.size()) +
                                " bytes that are none (pass on what address() of the same build gave)");
  }
  return {head.lane, head.incarnation, head.pid, head.machine, std::string(worker)};
}

std::uint64_t this_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat pids {};
  if (boot.empty() || stat("/proc/self/ns/pid", &pids) != 0) return 0;
  return checksum(boot + "/" + std::to_string(pids.st_ino)) | 1;  // 0: unknown, nobody's neighbour
}

}  // namespace nestor::comm::ucx
