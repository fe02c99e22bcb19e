#include <vector>

#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/yaml_file.h>

namespace nestor::launch {
namespace {

std::string position(const std::string& source, const YAML::Mark& mark) {
  return mark.is_null() ? source : source + ":" + std::to_string(mark.line + 1);
}

}  // namespace

YAML::Node parse_yaml(const std::string& text, const std::string& source) {
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text);
  } catch (const YAML::Exception& error) {
    throw InputError(position(source, error.mark), "not YAML: " + one_line(error.msg));
  }
  if (documents.empty() || documents[0].IsNull()) throw InputError(source, "is empty");
  if (documents.size() > 1) throw InputError(position(source, documents[1].Mark()), "holds more than one document");
  if (!documents[0].IsMap()) throw InputError(position(source, documents[0].Mark()), "is not a mapping of keys");
  return documents[0];
}

void set_yaml(YAML::Node root, const std::string& assignment) {
  auto equal = assignment.find('=');
  auto key = assignment.substr(0, equal);
  if (equal == std::string::npos || key.empty())
    throw InputError("--set " + one_line(assignment, 80), "is not of the form key=value", "e.g. --set run.steps=20");
  YAML::Node value;
  try {
    value = YAML::Load(assignment.substr(equal + 1));
  } catch (const YAML::Exception& error) {
    throw InputError("--set " + one_line(key, 80), "the value is not YAML: " + one_line(error.msg));
  }

  YAML::Node node = root;
  for (std::size_t begin = 0;;) {
    auto end = key.find('.', begin);
    auto part = key.substr(begin, end - begin);
    if (part.empty()) throw InputError("--set " + one_line(key, 80), "has an empty part", "e.g. --set run.steps=20");
    if (!node.IsMap() && !node.IsNull())
      throw InputError("--set " + one_line(key, 80),
                       "\"" + key.substr(0, begin ? begin - 1 : 0) + "\" is not a mapping");
    if (end == std::string::npos) {
      node[part] = value;
      return;
    }
    node.reset(node[part]);  // reset: assignment would overwrite the mapping in the tree
    if (!node.IsDefined()) node = YAML::Node(YAML::NodeType::Map);
    begin = end + 1;
  }
}

}  // namespace nestor::launch
