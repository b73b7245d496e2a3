#include "support/yaml_text.h"

#include <yaml-cpp/yaml.h>

#include <exception>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

void Fail(const TjitYamlSink& sink, const YAML::Mark& at, const char* what) {
  const bool known = !at.is_null();
  sink.error(sink.context, what, known ? at.line + 1 : 1,
             known ? at.column + 1 : 1);
}

// Nothing behind the colon stands where its key does.
YAML::Mark PlaceOf(const YAML::Node& value, const YAML::Node& key) {
  return value.IsNull() ? key.Mark() : value.Mark();
}

class NestedReader {
 public:
  NestedReader(const TjitYamlSink& sink, std::string key)
      : sink_(sink), key_(std::move(key)) {}

  // What stands in the place of the map is a list.
  void SayIsList(const YAML::Node& list) const {
    Send("", nullptr, TjitYamlValue::kList, list, list.Mark());
  }
  // REQUIRES: `top` is a map.
  void Read(const YAML::Node& top) const {
    for (const auto& item : top) {
      const std::string name = TextOf(item.first);
      if (!item.second.IsMap()) {
        Give(name, nullptr, item.second, item.first);
        continue;
      }
      for (const auto& option : item.second) {
        const std::string option_name = TextOf(option.first);
        Give(name, option_name.c_str(), option.second, option.first);
      }
    }
  }

 private:
  static std::string TextOf(const YAML::Node& node) {
    return node.IsScalar() ? node.Scalar() : "";
  }

  void Give(const std::string& name, const char* option,
            const YAML::Node& value, const YAML::Node& key) const {
    Send(name, option,
         value.IsSequence() ? TjitYamlValue::kList
         : value.IsMap()    ? TjitYamlValue::kMap
                            : TjitYamlValue::kText,
         value, PlaceOf(value, key));
    if (!value.IsSequence()) return;
    for (const auto& item : value) {
      Send(name, option, TjitYamlValue::kItem, item, PlaceOf(item, value));
    }
  }

  void Send(const std::string& name, const char* option,
            TjitYamlValue::Kind kind, const YAML::Node& node,
            const YAML::Mark& at) const {
    const bool has_text = node.IsScalar() || node.IsNull();
    const std::string text = TextOf(node);
    const TjitYamlValue value{kind, has_text ? text.c_str() : nullptr,
                              node.Tag() == "!", at.line + 1, at.column + 1};
    sink_.nested(sink_.context, key_.c_str(), name.c_str(), option, &value);
  }

  const TjitYamlSink& sink_;
  const std::string key_;
};

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
    const YAML::Mark value_at = PlaceOf(value, key);
    sink.entry(sink.context, key.Scalar().c_str(),
               is_plain ? word.c_str() : nullptr, value.Tag() == "!",
               value_at.line + 1, value_at.column + 1);
    if (value.IsMap()) NestedReader(sink, key.Scalar()).Read(value);
    if (value.IsSequence()) NestedReader(sink, key.Scalar()).SayIsList(value);
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
