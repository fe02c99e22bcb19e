#include <algorithm>

#include <nlohmann/json.hpp>

#include <nestor/modules/data/files.h>
#include <nestor/modules/data/tokenizer.h>
#include <nestor/modules/error.h>

namespace nestor::modules {
namespace {

constexpr std::int64_t first_byte = special_tokens;
constexpr std::int64_t first_piece = special_tokens + 256;
constexpr std::size_t max_pieces = 1 << 20;
constexpr std::int64_t max_vocabulary_bytes = 64 << 20;
const char* const format_name = "nestor.vocabulary/1";

/// Bytes of the UTF-8 character that `text` opens with; 1 for what is no UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (bytes > text.size()) return 1;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 1;
  }
  return bytes;
}

/// Calls visit(piece) for every word (those between single spaces, which may be empty) or character of the text.
template <class Visit>
void for_each_piece(TokenUnit unit, std::string_view text, Visit visit) {
  if (unit == TokenUnit::characters) {
    for (; !text.empty(); text.remove_prefix(character_bytes(text))) visit(text.substr(0, character_bytes(text)));
    return;
  }
  for (;;) {
    const auto space = text.find(' ');
    visit(text.substr(0, space));
    if (space == std::string_view::npos) return;
    text.remove_prefix(space + 1);
  }
}

void append_bytes(std::vector<std::int64_t>& tokens, std::string_view piece) {
  for (const char c : piece) tokens.push_back(first_byte + static_cast<unsigned char>(c));
}

}  // namespace

Tokenizer::Tokenizer(TokenUnit unit, std::vector<std::string> pieces) : unit_(unit), pieces_(std::move(pieces)) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const std::string& piece = pieces_[i];
    const bool fits = unit == TokenUnit::words ? piece.find(' ') == std::string::npos
                                               : !piece.empty() && character_bytes(piece) == piece.size();
    if (piece.empty() || !fits) {
      throw Error("vocabulary",
                  "piece " + std::to_string(i) + " is no " + (unit == TokenUnit::words ? "word" : "single character") +
                      ": \"" + piece + "\"",
                  "build the vocabulary again");
    }
    if (!index_.emplace(piece, first_piece + static_cast<std::int64_t>(i)).second) {
      throw Error("vocabulary", "has the piece \"" + piece + "\" twice", "build the vocabulary again");
    }
  }
}

Tokenizer Tokenizer::from_captions(TokenUnit unit, std::span<const std::string> captions, std::size_t limit) {
  std::map<std::string, std::int64_t, std::less<>> counts;
  for (const auto& caption : captions) {
    for_each_piece(unit, caption, [&](std::string_view piece) {
      if (!piece.empty()) ++counts[std::string(piece)];
    });
  }
  std::vector<std::pair<std::string, std::int64_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  order.resize(std::min(order.size(), limit == 0 ? max_pieces : std::min(limit, max_pieces)));
  std::vector<std::string> pieces;
  for (auto& [piece, count] : order) pieces.push_back(std::move(piece));
  return Tokenizer(unit, std::move(pieces));
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  bool first = true, after_piece = false;
  for_each_piece(unit_, text, [&](std::string_view piece) {
    const auto found = index_.find(piece);
    const bool known = found != index_.end();
    const bool implied = after_piece && known;
    if (unit_ == TokenUnit::words && !first && !implied) tokens.push_back(first_byte + ' ');
    if (known) {
      tokens.push_back(found->second);
    } else {
      append_bytes(tokens, piece);
    }
    first = false;
    after_piece = known;
  });
  return tokens;
}

std::string Tokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  bool after_piece = false;
  for (const std::int64_t token : tokens) {
    if (token < first_byte || token >= size()) continue;
    const bool piece = token >= first_piece;
    if (piece) {
      if (after_piece && unit_ == TokenUnit::words) text += ' ';
      text += pieces_[static_cast<std::size_t>(token - first_piece)];
    } else {
      text += static_cast<char>(token - first_byte);
    }
    after_piece = piece;
  }
  return text;
}

void Tokenizer::save(const std::filesystem::path& path) const {
  const nlohmann::json document = {
      {"format", format_name}, {"unit", unit_ == TokenUnit::words ? "words" : "characters"}, {"pieces", pieces_}};
  // Captions may hold bytes that are no UTF-8; JSON cannot, and a vocabulary that changed on the way would be worse.
  std::string content;
  try {
    content = document.dump(1);
  } catch (const nlohmann::json::exception&) {
    throw Error(path.string(), "the captions are not UTF-8", "convert the captions, then start the run again");
  }
  replace_file(path, content + "\n");
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  const std::string content = read_file(path, max_vocabulary_bytes);
  try {
    const auto document = nlohmann::json::parse(content);
    if (document.at("format") != format_name) {
      throw Error(path.string(), "is no vocabulary", std::string("expected format ") + format_name);
    }
    const auto unit = document.at("unit").get<std::string>();
    if (unit != "words" && unit != "characters") {
      throw Error(path.string(), "has the unit \"" + unit + "\"", "words or characters");
    }
    return Tokenizer(unit == "words" ? TokenUnit::words : TokenUnit::characters,
                     document.at("pieces").get<std::vector<std::string>>());
  } catch (const nlohmann::json::exception& failure) {
    throw Error(path.string(), std::string("is no vocabulary: ") + failure.what(), "take it from a run folder");
  }
}

}  // namespace nestor::modules
