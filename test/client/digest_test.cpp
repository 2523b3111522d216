#include "client/crc32c.h"
#include "client/sha256.h"
#include "client/url.h"
#include "support/seed.h"

#include <catch2/catch.hpp>

#include <random>

namespace simbridge::client {

TEST_CASE("SHA-256 agrees with the vectors of FIPS 180-4", "[client]") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("the processor's SHA-256 and the portable one agree at every length", "[client]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::string data;
  for (int length = 0; length < 400; ++length) {
    REQUIRE(sha256_hex(data) == sha256_hex(data, Sha256Code::kPortable));
    data.push_back(static_cast<char>(random()));
  }
}

TEST_CASE("CRC-32C agrees with its known values, at any length", "[client]") {
  CHECK(crc32c("") == 0U);
  CHECK(crc32c("123456789") == 0xE3069283U);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62A8AB43U);
}

TEST_CASE("an address is taken apart, and a wrong one is explained", "[client]") {
  const auto plain = parse_url("ws://127.0.0.1:8080");
  REQUIRE(plain);
  CHECK(plain->scheme == Url::Scheme::kWebSocket);
  CHECK(plain->authority() == "127.0.0.1:8080");
  CHECK(plain->path == "/v1/connect");
  CHECK(parse_url("ws://bridge/")->port == "8080");
  CHECK(parse_url("ws://bridge/other")->path == "/other");
  CHECK(parse_url("http://[::1]:90")->host == "::1");
  CHECK(parse_url("http://[::1]:90")->authority() == "[::1]:90");
  CHECK(parse_url("http://h")->port == "8090");
  CHECK(parse_url("http://h")->path == "/");
  for (const auto* wrong : {"",
                            "127.0.0.1:8080",
                            "ws://",
                            "ws://:80",
                            "ws://h:0",
                            "ws://h:65536",
                            "ws://h:8x",
                            "ws://::1",
                            "ws://[::1",
                            "ws://[::1]8",
                            "ws://a b",
                            "ws://u@h",
                            "ftp://h",
                            "wss://h",
                            "grpc://h:9090/path",
                            "ws+flat://h"}) {
    INFO(wrong);
    CHECK_FALSE(parse_url(wrong));
  }
  CHECK_THAT(parse_url("ws+flat://h:8080").error().detail,
             Catch::Matchers::Contains("does not speak ws+flat://"));
}

}  // namespace simbridge::client
