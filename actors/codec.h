#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <nestor/actors/error.h>
#include <nestor/comm/buffer.h>

namespace at {
class Tensor;
}

namespace nestor::comm {
class BlockPool;
}

namespace nestor::actors {

namespace remote {
class Node;
}

/// Values as bytes, for calls between processes. Little-endian, no tags: both ends run the same version of the program,
/// which joining a cluster checks. What can be sent is `Codable`: numbers, enums, strings, paths, the standard
/// containers, optional, pair, tuple, tensors, protobuf messages, handles, and any type that lists its fields:
///
///     struct Range {
///       int first, last;
///       template <class Visit> void fields(Visit&& visit) { visit(first, last); }
///     };
///
/// For a type that is not yours specialise Fields<T>, or Codec<T> itself.
template <class T>
struct Codec;
template <class T>
struct Fields;

/// Values as bytes, and the large tensors among them, whose bytes stay in memory of their own.
struct Encoded {
  std::string bytes;
  comm::Message attached;  ///< buffers of bytes that nobody writes any more, in the order of their use

  std::size_t size() const { return bytes.size() + comm::bytes(attached); }
};

class Encoder {
 public:
  /// `memory`: where tensors are copied to that are attached.
  explicit Encoder(remote::Node* node = nullptr, std::shared_ptr<comm::BlockPool> memory = nullptr)
      : node_(node), memory_(std::move(memory)) {}
  void raw(const void* data, std::size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  template <class... T>
  Encoder& operator()(const T&... values) {
    (Codec<std::remove_cv_t<T>>::encode(*this, values), ...);
    return *this;
  }
  /// Fills up to a multiple of `bytes`, so that what follows can be used in place.
  void align(std::size_t bytes) { bytes_.resize((bytes_.size() + bytes - 1) / bytes * bytes); }
  std::string take() { return std::move(bytes_); }
  /// The process's place in its cluster, which handles are encoded by; null outside of one.
  remote::Node* node() const { return node_; }

  /// Encodes values that the caller destroys right afterwards, leaving large tensors out of the bytes: those that
  /// nobody else holds are attached as they are, of others a copy, so that what is sent is what they are now.
  template <class... T>
  Encoded attach(const T&... values) {
    attaching_ = true;
    (attach_one(values), ...);
    return {std::move(bytes_), std::move(attached_)};
  }
  /// Whether a tensor of so many bytes is to be attached.
  bool attaches(std::size_t bytes) const {
    return attaching_ && bytes >= kAttached && attached_.size() < kMostAttached;
  }
  /// Whether a tensor that is referred to once belongs to the values alone.
  bool owned() const { return owned_; }
  void attach_buffer(comm::Buffer buffer) { attached_.push_back(std::move(buffer)); }
  std::shared_ptr<void> memory(std::size_t bytes) const;  ///< for a copy that is attached

  static constexpr std::size_t kAttached = std::size_t{64} << 10;  ///< bytes
  static constexpr std::size_t kMostAttached = 4096;

 private:
  template <class T>
  void attach_one(const T& value);

  std::string bytes_;
  comm::Message attached_;
  remote::Node* node_;
  std::shared_ptr<comm::BlockPool> memory_;
  bool attaching_ = false, owned_ = false;
};

/// Reads what an Encoder wrote. Throws Error where the bytes end early or hold what cannot be: never trusts a length.
class Decoder {
 public:
  /// What arrived, whose memory decoded tensors may go on using in place, without a copy of their own.
  class Owned {
   public:
    Owned() = default;
    explicit Owned(std::string bytes) {
      auto kept = std::make_shared<std::string>(std::move(bytes));
      bytes_ = *kept;
      owner_ = std::move(kept);
    }
    explicit Owned(Encoded encoded) : Owned(std::move(encoded.bytes)) { attached_ = std::move(encoded.attached); }
    Owned(std::string_view bytes, std::shared_ptr<const void> owner, comm::Message attached)
        : bytes_(bytes), owner_(std::move(owner)), attached_(std::move(attached)) {}

   private:
    friend class Decoder;
    std::string_view bytes_;
    std::shared_ptr<const void> owner_;
    comm::Message attached_;
  };
  explicit Decoder(std::string_view bytes, remote::Node* node = nullptr)
      : bytes_(bytes), size_(bytes.size()), node_(node) {}
  explicit Decoder(Owned&& owned, remote::Node* node = nullptr) : Decoder(owned.bytes_, node) {
    owner_ = std::move(owned.owner_);
    attached_ = std::move(owned.attached_);
  }
  std::string_view raw(std::size_t size) {
    if (size > bytes_.size()) malformed("it ends early");
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return part;
  }
  template <class... T>
  Decoder& operator()(T&... values) {
    (Codec<T>::decode(*this, values), ...);
    return *this;
  }
  /// A container's length; every element takes at least `least` bytes.
  std::size_t length(std::size_t least = 1);
  std::size_t left() const { return bytes_.size(); }
  /// Skips what Encoder::align wrote.
  void align(std::size_t bytes) { raw((bytes - (size_ - bytes_.size()) % bytes) % bytes); }
  /// Null where the bytes may not be kept.
  const std::shared_ptr<const void>& owner() const { return owner_; }
  /// The next attached buffer.
  comm::Buffer attached();
  /// Throws Error where bytes or buffers are left over.
  void finish() const;
  [[noreturn]] static void malformed(const std::string& why);
  remote::Node* node() const { return node_; }

 private:
  std::string_view bytes_;
  std::size_t size_;
  std::shared_ptr<const void> owner_;
  comm::Message attached_;
  std::size_t next_attached_ = 0;
  remote::Node* node_;
};

namespace detail {

struct AnyVisit {
  template <class... T>
  void operator()(T&...) const {}
};
template <class T>
concept ListsFields = requires(T& value, AnyVisit visit) {
  value.fields(visit);
};
template <class T>
concept HasFields = requires(T& value, AnyVisit visit) {
  Fields<T>::visit(visit, value);
};
template <class T>
concept ProtobufMessage = requires(T& message, const T& fixed, std::string* bytes) {
  { fixed.SerializeToString(bytes) } -> std::same_as<bool>;
  { message.ParseFromString(*bytes) } -> std::same_as<bool>;
};
template <class T>
concept Sequence = requires(T& container, typename T::value_type value) {
  container.insert(container.end(), std::move(value));
  container.size();
};

}  // namespace detail

template <class T>
concept Codable = requires(Encoder& encoder, Decoder& decoder, const T& fixed, T& value) {
  Codec<T>::encode(encoder, fixed);
  Codec<T>::decode(decoder, value);
};

template <class T>
requires std::is_arithmetic_v<T> || std::is_enum_v<T>
struct Codec<T> {
  static void encode(Encoder& encoder, T value) { encoder.raw(&value, sizeof value); }
  static void decode(Decoder& decoder, T& value) {
    std::memcpy(&value, decoder.raw(sizeof value).data(), sizeof value);
  }
};

template <>
struct Codec<bool> {
  static void encode(Encoder& encoder, bool value) { encoder(static_cast<std::uint8_t>(value)); }
  static void decode(Decoder& decoder, bool& value) {
    std::uint8_t byte = 0;
    decoder(byte);
    value = byte != 0;
  }
};

template <>
struct Codec<std::monostate> {
  static void encode(Encoder&, std::monostate) {}
  static void decode(Decoder&, std::monostate&) {}
};

template <>
struct Codec<std::string> {
  static void encode(Encoder& encoder, const std::string& value) {
    encoder(static_cast<std::uint64_t>(value.size())).raw(value.data(), value.size());
  }
  static void decode(Decoder& decoder, std::string& value) { value = decoder.raw(decoder.length()); }
};

template <>
struct Codec<std::filesystem::path> {
  static void encode(Encoder& encoder, const std::filesystem::path& value) { encoder(value.string()); }
  static void decode(Decoder& decoder, std::filesystem::path& value) {
    std::string text;
    decoder(text);
    value = text;
  }
};

/// The elements' bytes go by the descriptor's shape and type; an undefined tensor stays one. Lands on the CPU. A tensor
/// is sent as it is when it is encoded: what its holders write later does not travel.
template <>
struct Codec<at::Tensor> {
  static void encode(Encoder& encoder, const at::Tensor& value);
  static void decode(Decoder& decoder, at::Tensor& value);
};

template <class A, class B>
requires Codable<std::remove_cv_t<A>> && Codable<B>
struct Codec<std::pair<A, B>> {
  static void encode(Encoder& encoder, const std::pair<A, B>& value) { encoder(value.first, value.second); }
  static void decode(Decoder& decoder, std::pair<A, B>& value) {
    decoder(const_cast<std::remove_cv_t<A>&>(value.first), value.second);  // a map's element under construction
  }
};

template <Codable... T>
struct Codec<std::tuple<T...>> {
  static void encode(Encoder& encoder, const std::tuple<T...>& value) {
    std::apply([&](const T&... parts) { encoder(parts...); }, value);
  }
  static void decode(Decoder& decoder, std::tuple<T...>& value) {
    std::apply([&](T&... parts) { decoder(parts...); }, value);
  }
};

template <Codable T>
struct Codec<std::optional<T>> {
  static void encode(Encoder& encoder, const std::optional<T>& value) {
    encoder(value.has_value());
    if (value) encoder(*value);
  }
  static void decode(Decoder& decoder, std::optional<T>& value) {
    bool present = false;
    decoder(present);
    value.reset();
    if (present) decoder(value.emplace());
  }
};

/// Vectors, deques, sets, maps. Element by element, so that bool vectors and nested ones are alike.
template <detail::Sequence T>
requires Codable<typename T::value_type>
struct Codec<T> {
  static void encode(Encoder& encoder, const T& value) {
    encoder(static_cast<std::uint64_t>(value.size()));
    if constexpr (requires { value.data(); } && std::is_arithmetic_v<typename T::value_type>) {
      encoder.raw(value.data(), value.size() * sizeof(typename T::value_type));
    } else {
      for (const typename T::value_type& element : value) encoder(element);
    }
  }
  static void decode(Decoder& decoder, T& value) {
    value.clear();
    if constexpr (requires { value.data(); } && std::is_arithmetic_v<typename T::value_type>) {
      constexpr std::size_t kSize = sizeof(typename T::value_type);
      value.resize(decoder.length(kSize));
      if (!value.empty()) std::memcpy(value.data(), decoder.raw(value.size() * kSize).data(), value.size() * kSize);
      return;
    }
    for (std::size_t left = decoder.length(); left > 0; --left) {
      typename T::value_type element{};
      decoder(element);
      value.insert(value.end(), std::move(element));
    }
  }
};

template <detail::ProtobufMessage T>
struct Codec<T> {
  static void encode(Encoder& encoder, const T& value) {
    std::string bytes;
    if (!value.SerializeToString(&bytes)) throw Error("call", "a protobuf message lacks required fields");
    encoder(bytes);
  }
  static void decode(Decoder& decoder, T& value) {
    std::string bytes;
    decoder(bytes);
    if (!value.ParseFromString(bytes)) Decoder::malformed("no such protobuf message");
  }
};

template <class T>
requires detail::ListsFields<T> || detail::HasFields<T>
struct Codec<T> {
  static void encode(Encoder& encoder, const T& value) { visit(encoder, const_cast<T&>(value)); }  // only read
  static void decode(Decoder& decoder, T& value) { visit(decoder, value); }

 private:
  template <class Visit>
  static void visit(Visit& visit, T& value) {
    if constexpr (detail::ListsFields<T>) {
      value.fields(visit);
    } else {
      Fields<T>::visit(visit, value);
    }
  }
};

namespace detail {

/// Values whose tensors are theirs: a tensor in them that is referred to once can be reached by nobody else. Types with
/// codecs or fields of their own may lead to tensors that live on.
template <class T>
inline constexpr bool kOwnsTensors = std::is_arithmetic_v<T>;
template <>
inline constexpr bool kOwnsTensors<at::Tensor> = true;
template <>
inline constexpr bool kOwnsTensors<std::string> = true;
template <class T>
inline constexpr bool kOwnsTensors<std::vector<T>> = kOwnsTensors<T>;
template <class T>
inline constexpr bool kOwnsTensors<std::optional<T>> = kOwnsTensors<T>;
template <class A, class B>
inline constexpr bool kOwnsTensors<std::pair<A, B>> = kOwnsTensors<std::remove_cv_t<A>>&& kOwnsTensors<B>;
template <class... T>
inline constexpr bool kOwnsTensors<std::tuple<T...>> = (true && ... && kOwnsTensors<T>);
template <class K, class V>
inline constexpr bool kOwnsTensors<std::map<K, V>> = kOwnsTensors<K>&& kOwnsTensors<V>;

}  // namespace detail

template <class T>
void Encoder::attach_one(const T& value) {
  owned_ = detail::kOwnsTensors<T>;
  (*this)(value);
  owned_ = false;
}

}  // namespace nestor::actors

namespace nestor {
using actors::Codable;
using actors::Decoder;
using actors::Encoder;
}  // namespace nestor
