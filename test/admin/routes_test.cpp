#include "admin/routes.h"

#include "admin/snapshots.h"
#include "support/golden.h"
#include "support/source_dir.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>
#include <set>
#include <stdexcept>
#include <string>

namespace simbridge::admin {
namespace {

using Json = nlohmann::json;

/// The part of JSON Schema that our files use, and strictly: what a schema does not name is
/// refused. test/system/app_serve_test.py judges answers of the real process by an independent
/// validator.
std::string fault_in(const Json& schema, const Json& value, const std::string& at) {
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
    return at + " is not among the enum";
  }
  if (!schema.contains("type")) return {};
  const std::string type = schema["type"];
  if (type == "array") {
    if (!value.is_array()) return at + " is no array";
    for (const Json& item : value) {
      if (std::string wrong = fault_in(schema["items"], item, at + "[]"); !wrong.empty())
        return wrong;
    }
  } else if (type == "object") {
    if (!value.is_object()) return at + " is no object";
    const Json properties = schema.value("properties", Json::object());
    for (const Json& name : schema.value("required", Json::array())) {
      if (!value.contains(name)) return at + " lacks " + name.get<std::string>();
    }
    for (const auto& [name, member] : value.items()) {
      const bool known = properties.contains(name);
      const Json& extra = schema["additionalProperties"];
      if (!known && extra.is_boolean()) return at + " has " + name + ", which the schema does not";
      if (schema.contains("propertyNames")) {
        if (std::string wrong = fault_in(schema["propertyNames"], name, at + "." + name);
            !wrong.empty())
          return wrong;
      }
      if (std::string wrong = fault_in(known ? properties[name] : extra, member, at + "." + name);
          !wrong.empty()) {
        return wrong;
      }
    }
  } else if (type == "integer") {
    if (!value.is_number_integer() || value < schema.value("minimum", 0))
      return at + " is no such integer";
  } else if (type == "number") {
    if (!value.is_number() || value < schema.value("minimum", 0)) return at + " is no such number";
  } else if (type == "string") {
    if (!value.is_string()) return at + " is no string";
  } else {
    return at + " has a type that this test does not know";
  }
  return {};
}

Json schema_of(std::string_view name) {
  const auto path = test::source_dir() / "docs/api" / (std::string(name) + ".schema.json");
  INFO(path);
  return Json::parse(std::ifstream(path));
}

TEST_CASE("every JSON page has exactly the members of its schema file", "[admin][schema]") {
  const Snapshots snapshots = example_snapshots();
  int pages = 0;
  for (const Route& route : kRoutes) {
    if (route.schema.empty()) continue;
    INFO(route.path);
    ++pages;
    const Answer made = answer("GET", route.path, snapshots);
    CHECK(made.status == 200);
    CHECK(made.type == kJson);
    const Json page = Json::parse(made.body);
    const Json schema = schema_of(route.schema);
    CHECK(schema["title"] == route.path);
    CHECK_THAT(fault_in(schema, page, std::string(route.schema)), Catch::Matchers::Equals(""));

    // The judge can say no: a member more, and a member less.
    const auto spoil = [&](auto&& change) {
      Json spoiled = page;
      change(spoiled.is_array() ? spoiled[0] : spoiled);
      return fault_in(schema, spoiled, "it");
    };
    CHECK(spoil([](Json& row) { row["more"] = 1; }) ==
          (page.is_array() ? "it[]" : "it") + std::string(" has more, which the schema does not"));
    CHECK_FALSE(spoil([](Json& row) { row.erase(row.begin()); }).empty());
  }
  CHECK(pages == 4);
}

TEST_CASE("the figures stand under their names", "[admin]") {
  const Snapshots snapshots = example_snapshots();
  CHECK(Json::parse(answer("GET", "/api/v1/channels", snapshots).body) ==
        Json::parse(
            R"([{"name":"lidar_front/points","received":10,"rejected":1,"duplicate":2,"published":7,
                         "kept_frames":5,"kept_bytes":1099511627776}])"));
  CHECK(
      Json::parse(answer("GET", "/api/v1/subscriptions", snapshots).body) ==
      Json::parse(
          R"([{"session":3,"id":1,"channel":"lidar_front/points","promised":20,"delivered":9,"skipped":4,
                         "waiting":1,"lost":6,"gaps":{"EVICTED":4,"QUEUE":2}}])"));
  CHECK(Json::parse(answer("GET", "/api/v1/limits", snapshots).body)["memory"]["budget_bytes"] ==
        1U << 30U);
}

TEST_CASE("a bridge without channels answers empty lists, not null", "[admin]") {
  Snapshots snapshots = example_snapshots();
  snapshots.channels = [] {
    return std::vector<ChannelRow>{};
  };
  CHECK(answer("GET", "/api/v1/channels", snapshots).body == "[]\n");
  snapshots.subscriptions = [] {
    return std::vector<SubscriptionRow>{{.id = 1}};
  };
  CHECK(Json::parse(answer("GET", "/api/v1/subscriptions", snapshots).body)[0]["gaps"] ==
        Json::object());
}

TEST_CASE("readiness says in one word why not", "[admin]") {
  Snapshots snapshots = example_snapshots();
  CHECK(answer("GET", "/readyz", snapshots).status == 200);
  CHECK(answer("GET", "/readyz", snapshots).body == "ready\n");
  for (const std::string why : {"starting", "draining"}) {
    snapshots.readiness = [why] {
      return Readiness{.ready = false, .why = why};
    };
    CHECK(answer("GET", "/readyz", snapshots).status == 503);
    CHECK(answer("GET", "/readyz", snapshots).body == why + "\n");
    CHECK(answer("GET", "/healthz", snapshots).status == 200);  // alive all the same
  }
}

TEST_CASE("unknown paths and methods are told what there is", "[admin]") {
  const Snapshots snapshots = example_snapshots();
  const Answer missing = answer("GET", "/api/v1/frames", snapshots);
  CHECK(missing.status == 404);
  for (const Route& route : kRoutes) CHECK(missing.body.find(route.path) != std::string::npos);
  for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS", "get", ""}) {
    INFO(method);
    CHECK(answer(method, "/healthz", snapshots).status == 405);
    CHECK(answer(method, "/healthz", snapshots).allow_header);
  }
  CHECK(answer("HEAD", "/healthz", snapshots).status == 200);
  CHECK(answer("GET", "/healthz?verbose=1", snapshots).status == 200);
  CHECK(answer("GET", "/healthz/", snapshots).status == 404);
  CHECK(answer("GET", "", snapshots).status == 404);
}

TEST_CASE("names that are no UTF-8, and providers that throw, break no page", "[admin]") {
  Snapshots snapshots = example_snapshots();
  snapshots.channels = [] {
    return std::vector<ChannelRow>{{.name = "a\xff\"\n"}};
  };
  CHECK(Json::parse(answer("GET", "/api/v1/channels", snapshots).body)[0]["name"] ==
        "a\xEF\xBF\xBD\"\n");
  snapshots.channels = []() -> std::vector<ChannelRow> {
    throw std::runtime_error("no memory");
  };
  CHECK(answer("GET", "/api/v1/channels", snapshots).status == 500);
}

TEST_CASE("docs/endpoints.md is made from the tables", "[admin][golden]") {
  test::compare_with_file("docs/endpoints.md", endpoints_markdown());
}

}  // namespace
}  // namespace simbridge::admin
