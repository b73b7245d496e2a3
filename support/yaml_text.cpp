#include "support/yaml_text.h"

#include <yaml-cpp/yaml.h>

#include <exception>
#include <sstream>
#include <string>
#include <vector>

namespace {

void Fail(const TjitYamlSink& sink, const YAML::Mark& at, const char* what) {
  const bool known = !at.is_null();
  sink.error(sink.context, what, known ? at.line + 1 : 1,
             known ? at.column + 1 : 1);
}

void Read(const std::string& text, const TjitYamlSink& sink) {
  std::istringstream stream(text);
  const std::vector<YAML::Node> documents = YAML::LoadAll(stream);
  if (documents.size() > 1) {
    return Fail(sink, documents[1].Mark(), "a second document begins here");
  }
  if (documents.empty() || documents[0].IsNull()) return;
  const YAML::Node& top = documents[0];
  if (!top.IsMap()) return Fail(sink, top.Mark(), "this is no `key: value`");
  for (const auto& item : top) {
    const YAML::Node& key = item.first;
    const YAML::Node& value = item.second;
    const YAML::Mark at = key.Mark();
    if (!key.IsScalar()) return Fail(sink, at, "this key is no single word");
    // Nothing behind the colon is an empty value, where the key stands.
    const bool is_plain = value.IsScalar() || value.IsNull();
    const std::string word = value.IsScalar() ? value.Scalar() : "";
    const YAML::Mark value_at = value.IsNull() ? at : value.Mark();
    sink.entry(sink.context, key.Scalar().c_str(),
               is_plain ? word.c_str() : nullptr, value.Tag() == "!",
               value_at.line + 1, value_at.column + 1);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void tjit_read_yaml(
    const char* text, std::size_t bytes, const TjitYamlSink* sink) {
  try {
    Read(std::string(text, bytes), *sink);
  } catch (const YAML::Exception& e) {
    Fail(*sink, e.mark, e.msg.c_str());
  } catch (const std::exception& e) {
    Fail(*sink, YAML::Mark::null_mark(), e.what());
  }
}
