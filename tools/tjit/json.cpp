#include "tools/tjit/json.h"

#include "support/json_text.h"

namespace tjit::tools {

Json JsonHead(const std::string& version, const std::string& program) {
  return {{"schema", kJsonSchema}, {"tjit", version}, {"program", program}};
}

std::string JsonText(const Json& json) {
  constexpr int kOneLine = -1;
  return json.dump(kOneLine, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

Json ParseJson(std::string_view text) {
  // The parser refuses what is no UTF-8; the printer can replace it.
  return Json::parse(Json::parse(JsonText(Json(text))).get<std::string>());
}

}  // namespace tjit::tools
