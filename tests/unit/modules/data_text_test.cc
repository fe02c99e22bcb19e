#include <algorithm>
#include <filesystem>
#include <memory>

#include <gtest/gtest.h>

#include <nestor/modules/data/manifest.h>
#include <nestor/modules/data/prompt.h>
#include <nestor/modules/data/random.h>
#include <nestor/modules/data/tokenizer.h>

#include "data_testing.h"

namespace nestor::modules {
namespace {

using testing::error_of;
using testing::TestFolder;
using testing::write_pictures;

// ---- tokenizer ------------------------------------------------------------------------------------------------------

const std::vector<std::string> captions = {"edit find", "edit find replace", "edit copy", "go up", "größe"};

TEST(DataTokenizer, FrequentWordsComeFirstWhateverTheOrder) {
  const auto tokenizer = Tokenizer::from_captions(TokenUnit::words, captions);
  EXPECT_EQ(tokenizer.pieces(), (std::vector<std::string>{"edit", "find", "copy", "go", "größe", "replace", "up"}));
  const std::vector<std::string> reversed(captions.rbegin(), captions.rend());
  EXPECT_EQ(Tokenizer::from_captions(TokenUnit::words, reversed), tokenizer);
  EXPECT_EQ(tokenizer.size(), special_tokens + 256 + 7);
  EXPECT_EQ(tokenizer.encode("edit find"), (std::vector<std::int64_t>{263, 264}));
  EXPECT_EQ(Tokenizer::from_captions(TokenUnit::words, captions, 2).pieces(),
            (std::vector<std::string>{"edit", "find"}));
}

TEST(DataTokenizer, DecodingIsExactForAnyText) {
  const std::vector<std::string> texts = {
      "",        " ",          "  ",          "edit",       " edit",
      "edit ",   "edit  find", "edit x find", "x y",        "go up größe",
      "größe",   "Größe\tup",  "日本 edit",   "edit\nfind", std::string("\0\xff\x80", 3),
      "editfind"};
  for (const TokenUnit unit : {TokenUnit::words, TokenUnit::characters}) {
    const auto tokenizer = Tokenizer::from_captions(unit, captions);
    for (const auto& text : texts) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  RandomStream random(Seed(3));
  const auto tokenizer = Tokenizer::from_captions(TokenUnit::words, captions);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::int64_t k = random.below(8); k > 0; --k) {
      const auto pick = random.below(10);
      text += pick < 5 ? tokenizer.pieces()[static_cast<std::size_t>(pick)] : pick < 8 ? " " : "q";
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(DataTokenizer, UnknownWordsAreBytes) {
  const auto tokenizer = Tokenizer::from_captions(TokenUnit::words, captions);
  EXPECT_EQ(tokenizer.encode("edit ab"), (std::vector<std::int64_t>{263, 7 + ' ', 7 + 'a', 7 + 'b'}));
  EXPECT_EQ(Tokenizer().encode("a"), (std::vector<std::int64_t>{7 + 'a'}));
}

TEST(DataTokenizer, SpecialAndForeignIdsDecodeToNothing) {
  const auto tokenizer = Tokenizer::from_captions(TokenUnit::words, captions);
  const std::vector<std::int64_t> tokens = {id(SpecialToken::begin), 263, id(SpecialToken::end), -5, 100000, 264};
  EXPECT_EQ(tokenizer.decode(tokens), "edit find");
}

TEST(DataTokenizer, CopiesDoNotDependOnTheOriginal) {
  auto original = std::make_unique<Tokenizer>(Tokenizer::from_captions(TokenUnit::words, captions));
  const Tokenizer copy = *original;
  original.reset();
  EXPECT_EQ(copy.encode("go up").size(), 2U);
}

TEST(DataTokenizer, SavesAndLoads) {
  TestFolder folder;
  for (const TokenUnit unit : {TokenUnit::words, TokenUnit::characters}) {
    const auto tokenizer = Tokenizer::from_captions(unit, captions);
    tokenizer.save(folder / "vocabulary.json");
    EXPECT_EQ(Tokenizer::load(folder / "vocabulary.json"), tokenizer);
  }
}

TEST(DataTokenizer, BrokenVocabularies) {
  TestFolder folder;
  const std::vector<std::string> broken = {
      "",
      "{",
      "[]",
      "7",
      "{}",
      R"({"format": "nestor.vocabulary/2", "unit": "words", "pieces": []})",
      R"({"format": "nestor.vocabulary/1", "unit": "syllables", "pieces": []})",
      R"({"format": "nestor.vocabulary/1", "unit": "words"})",
      R"({"format": "nestor.vocabulary/1", "unit": "words", "pieces": [1]})",
      R"({"format": "nestor.vocabulary/1", "unit": "words", "pieces": ["a", "a"]})",
      R"({"format": "nestor.vocabulary/1", "unit": "words", "pieces": [""]})",
      R"({"format": "nestor.vocabulary/1", "unit": "words", "pieces": ["a b"]})",
      R"({"format": "nestor.vocabulary/1", "unit": "characters", "pieces": ["ab"]})",
  };
  for (const auto& content : broken) {
    const auto path = folder.file("vocabulary.json", content);
    EXPECT_FALSE(error_of([&] { Tokenizer::load(path); }).empty()) << content;
  }
  error_of([&] { Tokenizer::load(folder / "missing.json"); });
  const auto bytes = Tokenizer::from_captions(TokenUnit::words, std::vector<std::string>{"\xff"});
  error_of([&] { bytes.save(folder / "out.json"); });
  EXPECT_FALSE(std::filesystem::exists(folder / "out.json"));
}

TEST(DataTokenizer, Utf8) {
  for (const char* good : {"", "a", "ß", "日", "😀", "\x7f"}) EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad :
       {"\xff", "\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "a\xc3z"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

// ---- prompts --------------------------------------------------------------------------------------------------------

TEST(DataPrompt, LabelsAreTheNextTokens) {
  const auto read = make_prompt(Task::read, 2, {300, 301});
  EXPECT_EQ(read.tokens, (std::vector<std::int64_t>{1, 3, 3, 4, 300, 301}));
  EXPECT_EQ(read.labels, (std::vector<std::int64_t>{-100, -100, -100, 300, 301, 2}));
  const auto draw = make_prompt(Task::draw, 2, {300});
  EXPECT_EQ(draw.tokens, (std::vector<std::int64_t>{1, 5, 300, 2}));
  EXPECT_EQ(draw.labels, (std::vector<std::int64_t>(4, -100)));
  EXPECT_EQ(make_prompt(Task::draw, 2, {300}, true).labels, (std::vector<std::int64_t>{-100, 300, 2, -100}));
  EXPECT_EQ(make_prompt(Task::text, 2, {300}).labels, (std::vector<std::int64_t>{-100, 300, 2}));
  for (const Task task : {Task::read, Task::draw, Task::text}) {
    for (std::int64_t words = 0; words < 4; ++words) {
      const auto prompt = make_prompt(task, 3, std::vector<std::int64_t>(static_cast<std::size_t>(words), 300));
      EXPECT_EQ(prompt_length(task, 3, words), static_cast<std::int64_t>(prompt.tokens.size()));
      EXPECT_EQ(prompt.tokens.size(), prompt.labels.size());
      EXPECT_EQ(prompt_labels(task, words),
                std::count_if(prompt.labels.begin(), prompt.labels.end(), [](auto l) { return l != -100; }));
    }
  }
}

TEST(DataPrompt, GenerationStartsWhereTrainingDid) {
  const auto tokenizer = Tokenizer::from_captions(TokenUnit::words, captions);
  const auto words = tokenizer.encode("edit find");
  const auto read = make_prompt(Task::read, 4, words);
  const auto prompt = read_prompt(4);
  EXPECT_EQ(prompt, std::vector<std::int64_t>(read.tokens.begin(), read.tokens.begin() + 6));
  EXPECT_EQ(read.labels[prompt.size() - 1], words[0]);
  EXPECT_EQ(draw_prompt(tokenizer, "edit find"), make_prompt(Task::draw, 4, words).tokens);
  EXPECT_EQ(draw_prompt(tokenizer, "").size(), 3U);
}

// ---- manifests ------------------------------------------------------------------------------------------------------

TEST(DataManifest, NamesBecomeCaptions) {
  EXPECT_EQ(caption_from_name("x/edit-find_replace.png"), "edit find replace");
  EXPECT_EQ(caption_from_name("--a..b .png"), "a b");
  TestFolder folder;
  write_pictures(folder, 2, 4);
  std::filesystem::create_directories(folder / "sub");
  std::filesystem::rename(folder / "b.png", folder / "sub/B-side.PNG");
  folder.file(".hidden/c.png", "no picture");
  folder.file("readme.md", "no picture");
  const auto manifest = read_manifest(folder.path());
  ASSERT_EQ(manifest.pictures.size(), 2U);
  EXPECT_EQ(manifest.pictures[0], (Picture{"a.png", {{"a", Split::train}}}));
  EXPECT_EQ(manifest.pictures[1], (Picture{"sub/B-side.PNG", {{"B side", Split::train}}}));
}

TEST(DataManifest, LinksAreFurtherCaptions) {
  TestFolder folder, elsewhere;
  write_pictures(folder, 2, 4);
  write_pictures(elsewhere, 1, 4);
  std::filesystem::create_directories(folder / "sub");
  std::filesystem::create_symlink("../a.png", folder / "sub/first-letter.png");
  std::filesystem::create_symlink("a.png", folder / "A.png");
  std::filesystem::create_symlink("sub/first-letter.png", folder / "over.png");
  std::filesystem::create_symlink(elsewhere / "a.png", folder / "foreign.png");
  std::filesystem::create_directory_symlink("..", folder / "sub/loop");
  const auto manifest = read_manifest(folder.path());
  ASSERT_EQ(manifest.pictures.size(), 3U);
  const std::vector<Caption> want = {
      {"a", Split::train}, {"A", Split::train}, {"over", Split::train}, {"first letter", Split::train}};
  EXPECT_EQ(manifest.pictures[0].captions, want);
  EXPECT_EQ(manifest.pictures[2].file, "foreign.png");
  ManifestOptions options;
  options.links_are_captions = false;
  EXPECT_EQ(read_manifest(folder.path(), options).pictures[0].captions.size(), 1U);
  std::filesystem::create_symlink("gone.png", folder / "dangling.png");
  EXPECT_NE(error_of([&] { read_manifest(folder.path()); }).find("dangling.png: is a link to nothing"),
            std::string::npos);
}

TEST(DataManifest, Sidecars) {
  TestFolder folder;
  write_pictures(folder, 2, 4);
  folder.file("a.txt", "a red square\r\n\n  a tile \n");
  const auto manifest = read_manifest(folder.path());
  EXPECT_EQ(manifest.pictures[0].captions,
            (std::vector<Caption>{{"a red square", Split::train}, {"a tile", Split::train}}));
  EXPECT_EQ(manifest.pictures[1].captions[0].text, "b");
  ManifestOptions options;
  options.captions = CaptionSource::sidecars;
  EXPECT_NE(error_of([&] { read_manifest(folder.path(), options); }).find("b.png: has no caption"), std::string::npos);
  options.captions = CaptionSource::names;
  EXPECT_EQ(read_manifest(folder.path(), options).pictures[0].captions[0].text, "a");
  folder.file("a.txt", " \n");
  EXPECT_NE(error_of([&] { read_manifest(folder.path()); }).find("a.txt: is empty"), std::string::npos);
  folder.file("a.txt", "fine\n\xff\n");
  EXPECT_NE(error_of([&] { read_manifest(folder.path()); }).find("a.txt:2: is not UTF-8"), std::string::npos);
}

TEST(DataManifest, Tables) {
  TestFolder folder;
  write_pictures(folder, 3, 4);
  folder.file("captions.tsv", "b.png\tsecond\n\na.png\tfirst\r\nb.png\tanother\n");
  auto manifest = read_manifest(folder.path());
  ASSERT_EQ(manifest.pictures.size(), 2U);
  EXPECT_EQ(manifest.pictures[0], (Picture{"b.png", {{"second", Split::train}, {"another", Split::train}}}));
  EXPECT_FALSE(manifest.explicit_splits);
  std::filesystem::remove(folder / "captions.tsv");
  folder.file("manifest.jsonl", R"({"image": "./a.png", "caption": "one"}
{"image": "a.png", "caption": "uno", "split": "held_out"})");
  manifest = read_manifest(folder.path());
  EXPECT_TRUE(manifest.explicit_splits);
  EXPECT_EQ(manifest.pictures, (std::vector<Picture>{{"a.png", {{"one", Split::train}, {"uno", Split::held_out}}}}));
}

TEST(DataManifest, BrokenTablesNameTheLine) {
  TestFolder folder;
  write_pictures(folder, 1, 4);
  const auto json = [&](const std::string& line) {
    folder.file("manifest.jsonl", R"({"image": "a.png", "caption": "fine"})"
                                  "\n" +
                                      line + "\n");
    const auto text = error_of([&] { read_manifest(folder.path()); });
    EXPECT_TRUE(text.starts_with((folder / "manifest.jsonl").string() + ":2: ")) << text;
    return text;
  };
  for (const char* line :
       {"nonsense", "[1]", "7", "{", R"({"image": "a.png"})", R"({"caption": "x"})", R"({"image": 1, "caption": "x"})",
        R"({"image": "a.png", "caption": ["x"]})", R"({"image": "a.png", "caption": ""})",
        R"({"image": "a.png", "caption": "x", "split": "test"})", R"({"image": "a.png", "caption": "x", "weight": 2})",
        R"({"image": "missing.png", "caption": "x"})", R"({"image": "../a.png", "caption": "x"})",
        R"({"image": "/etc/passwd", "caption": "x"})", R"({"image": "", "caption": "x"})",
        R"({"image": "a.png", "caption": "fine"})", "{\"image\": \"a.png\", \"caption\": \"\xff\"}"}) {
    json(line);
  }
  EXPECT_NE(json(R"({"image": "a.png", "caption": "x", "weight": 2})").find("unknown key \"weight\""),
            std::string::npos);
  folder.file("captions.tsv", "a.png\tx\n");
  EXPECT_NE(error_of([&] { read_manifest(folder.path()); }).find("both"), std::string::npos);
  std::filesystem::remove(folder / "manifest.jsonl");
  for (const char* line : {"a.png", "a.png\tx\ty", "a.png\t ", "\tx", "nope.png\tx"}) {
    folder.file("captions.tsv", line);
    EXPECT_NE(error_of([&] { read_manifest(folder.path()); }).find("captions.tsv:1: "), std::string::npos) << line;
  }
  folder.file("captions.tsv", "\n");
  error_of([&] { read_manifest(folder.path()); });
}

TEST(DataManifest, FoldersThatAreNone) {
  TestFolder folder;
  error_of([&] { read_manifest(folder / "missing"); });
  error_of([&] { read_manifest(folder.path()); });
  const auto file = folder.file("x.txt", "x");
  error_of([&] { read_manifest(file); });
  ManifestOptions options;
  options.captions = CaptionSource::table;
  error_of([&] { read_manifest(folder.path(), options); });
  folder.file("--.png", "x");
  EXPECT_NE(error_of([&] { read_manifest(folder.path()); }).find("its name says nothing"), std::string::npos);
}

}  // namespace
}  // namespace nestor::modules
