#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nestor/actors/error.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/cluster/host_files.h>
#include <nestor/launch/files.h>
#include <nestor/modules/train/file_io.h>

namespace nestor::launch {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class HostFilesTest : public testing::Test {
 protected:
  HostFilesTest() { fs::create_directories(folder_); }
  ~HostFilesTest() override { fs::remove_all(folder_); }

  template <class Method, class... Args>
  auto call(Method method, const Args&... args) {
    return files_.call(method, args...).get();
  }
  bool serve() { return call(&HostFiles::serve, run_, folder_ / "no-probe", std::string("text"), 0); }
  static std::uint32_t sum(const std::string& text) { return modules::crc32_of(text.data(), text.size()); }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("host-files-" + std::to_string(::getpid()));
  const fs::path run_ = folder_ / "runs" / "one", step_ = run_ / "checkpoints" / "step-4";
  actors::Runtime runtime_;
  actors::Handle<HostFiles> files_ = runtime_.spawn<HostFiles>("files");
};

TEST_F(HostFilesTest, KnowsTheDiskOfWhoeverAsksByAFileOnIt) {
  const fs::path probe = folder_ / "probe";
  write_aside(probe, "secret");
  EXPECT_TRUE(call(&HostFiles::serve, run_, probe, std::string("secret"), 3));
  EXPECT_EQ(read_text(HostFiles::answer_file(probe, 3)), "secret");
  EXPECT_FALSE(fs::exists(run_)) << "a shared run folder is made by its owner";
  EXPECT_FALSE(call(&HostFiles::serve, run_, probe, std::string("another"), 4));
  EXPECT_FALSE(fs::exists(HostFiles::answer_file(probe, 4)));
  EXPECT_TRUE(fs::is_directory(run_ / "checkpoints"));
}

TEST_F(HostFilesTest, AFileComesInPartsAndIsThereOnlyOnceItIsWhole) {
  serve();
  const std::string text(100'000, 'x');
  const fs::path file = step_ / "lane-0.safetensors";
  call(&HostFiles::write, file, std::uint64_t{0}, text.substr(0, 60'000));
  EXPECT_FALSE(fs::exists(file));
  EXPECT_FALSE(call(&HostFiles::whole, file, std::int64_t{100'000}, sum(text))) << "half of it is not it";
  call(&HostFiles::write, file, std::uint64_t{0}, text.substr(0, 60'000));
  call(&HostFiles::write, file, std::uint64_t{60'000}, text.substr(60'000));
  EXPECT_TRUE(call(&HostFiles::whole, file, std::int64_t{100'000}, sum(text)));
  EXPECT_EQ(read_text(file), text);
  EXPECT_EQ(call(&HostFiles::read, file, std::uint64_t{99'990}, std::uint64_t{10}), std::string(10, 'x'));
  EXPECT_THAT([&] { call(&HostFiles::read, file, std::uint64_t{99'990}, std::uint64_t{11}); },
              ThrowsMessage<actors::CallFailed>(HasSubstr("does not have")));
  EXPECT_THAT([&] { call(&HostFiles::write, file, std::uint64_t{7}, text); },
              ThrowsMessage<actors::CallFailed>(HasSubstr("another length")));
}

TEST_F(HostFilesTest, SaysWhatIsMissingOrNotWhole) {
  serve();
  fs::create_directories(step_);
  write_aside(step_ / "a", "good");
  write_aside(step_ / "b", "baad");
  write_aside(step_ / "c", "short");
  const std::vector<modules::CheckpointFile> files{
      {"a", 4, sum("good"), {}}, {"b", 4, sum("good"), {}}, {"c", 4, sum("good"), {}}, {"d", 4, sum("good"), {}}};
  EXPECT_THAT(call(&HostFiles::missing, step_, files), ElementsAre("b", "c", "d"));
}

TEST_F(HostFilesTest, KeepsTheLanesPartAndDropsOldCheckpoints) {
  serve();
  for (const char* name : {"step-1", "step-2", "step-3.partial", "step-4.partial"}) {
    fs::create_directories(run_ / "checkpoints" / name);
    write_aside(run_ / "checkpoints" / name / "lane-1.safetensors", name);
  }
  write_aside(run_ / "checkpoints" / "notes.txt", "mine");
  call(&HostFiles::keep, step_, std::vector<std::string>{"step-2", "step-4"});
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(run_ / "checkpoints")) left.push_back(entry.path().filename());
  EXPECT_THAT(left, testing::UnorderedElementsAre("step-2", "step-4", "notes.txt"));
  EXPECT_EQ(read_text(step_ / "lane-1.safetensors"), "step-4.partial");
}

TEST_F(HostFilesTest, TouchesNothingOutsideOfTheRunFolder) {
  write_aside(folder_ / "other", "mine");
  const auto outside = HasSubstr("not in the run folder");
  EXPECT_THAT([&] { call(&HostFiles::read, folder_ / "other", std::uint64_t{0}, std::uint64_t{1}); },
              ThrowsMessage<actors::CallFailed>(outside))
      << "before it serves one";
  serve();
  for (const fs::path& path : {folder_ / "other", run_ / ".." / ".." / "other", run_, fs::path("other"), fs::path()}) {
    EXPECT_THAT([&] { call(&HostFiles::read, path, std::uint64_t{0}, std::uint64_t{1}); },
                ThrowsMessage<actors::CallFailed>(outside))
        << path;
    EXPECT_THAT([&] { call(&HostFiles::write, path, std::uint64_t{0}, std::string("x")); },
                ThrowsMessage<actors::CallFailed>(outside));
    EXPECT_THAT([&] { call(&HostFiles::keep, path, std::vector<std::string>()); },
                ThrowsMessage<actors::CallFailed>(outside));
  }
  EXPECT_EQ(read_text(folder_ / "other"), "mine");
}

TEST_F(HostFilesTest, AFolderThatCannotBeMadeIsAnError) {
  write_aside(folder_ / "runs", "a file where the folder should be");
  EXPECT_THAT([&] { serve(); }, ThrowsMessage<actors::CallFailed>(HasSubstr("cannot be made on this host")));
}

}  // namespace
}  // namespace nestor::launch
