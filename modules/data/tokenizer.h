#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nestor::modules {

/// The first tokens of every vocabulary; a model may name them as constants.
enum class SpecialToken : std::int64_t { pad, begin, end, image, read, draw, text };
inline constexpr std::int64_t special_tokens = 7;
constexpr std::int64_t id(SpecialToken token) {
  return static_cast<std::int64_t>(token);
}

/// What one piece of text becomes where the vocabulary has it.
enum class TokenUnit : std::uint8_t { words, characters };

/// Text to tokens and back, without loss. Ids: the special tokens, the 256 bytes, then the vocabulary's pieces. A piece
/// that the vocabulary lacks is spelled in UTF-8 bytes, so any text can be a prompt.
///
/// Captions of a picture set are a few words out of a few hundred, and a model of a million parameters learns a word as
/// one token far sooner than as a spelling: a name is then two or three predictions long instead of twenty. Hence
/// `words` is the default. A single space between two words of the vocabulary is implied and costs no token; every
/// other space is the byte 0x20, which is what makes decoding exact.
/// Immutable; any thread.
class Tokenizer {
 public:
  /// Only special tokens and bytes.
  Tokenizer() : Tokenizer(TokenUnit::words, {}) {}
  /// `pieces`: distinct, not empty, words without a space or single characters. Throws Error naming the piece.
  Tokenizer(TokenUnit unit, std::vector<std::string> pieces);
  /// The `limit` most frequent pieces of the captions, at equal count in byte order: equal captions, in any order, give
  /// equal ids. 0: no limit.
  static Tokenizer from_captions(TokenUnit unit, std::span<const std::string> captions, std::size_t limit = 0);
  /// nestor.vocabulary/1 (JSON). Throws Error "PATH: ..." on anything else.
  static Tokenizer load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

  std::int64_t size() const { return special_tokens + 256 + static_cast<std::int64_t>(pieces_.size()); }
  TokenUnit unit() const { return unit_; }
  const std::vector<std::string>& pieces() const { return pieces_; }

  std::vector<std::int64_t> encode(std::string_view text) const;
  /// The text of the tokens; special tokens and ids out of range are left out. A model may produce bytes that are no
  /// UTF-8: these come back as they are.
  std::string decode(std::span<const std::int64_t> tokens) const;

  bool operator==(const Tokenizer& other) const { return unit_ == other.unit_ && pieces_ == other.pieces_; }

 private:
  TokenUnit unit_;
  std::vector<std::string> pieces_;
  std::map<std::string, std::int64_t, std::less<>> index_;
};

}  // namespace nestor::modules
