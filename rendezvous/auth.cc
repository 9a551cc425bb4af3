#include "rendezvous/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace hv::rendezvous {

namespace {

constexpr std::string_view kMagic = "HVRZ";
constexpr std::size_t kNonceSize = 32;
using Mac = std::array<std::byte, 32>;

// libcrypto fails here only when memory or its own installation is broken; going on without
// cryptography is no choice.
void must(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "hvrun: cryptography failed: %s\n", what);
  std::abort();
}

// A library context of our own: the program we live in keeps its OpenSSL settings, and no
// configuration file is read.
OSSL_LIB_CTX* context() {
  static OSSL_LIB_CTX* const instance = OSSL_LIB_CTX_new();
  must(instance != nullptr, "OSSL_LIB_CTX_new");
  return instance;
}

const EVP_CIPHER* aes_gcm() {
  static EVP_CIPHER* const cipher = EVP_CIPHER_fetch(context(), "AES-256-GCM", nullptr);
  must(cipher != nullptr, "AES-256-GCM");
  return cipher;
}

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// The kernel's generator: libcrypto's own would first load all its algorithms, some milliseconds in
// hvrun and again in the agent of a local job, which needs nothing else of it.
void fill_random(std::span<std::byte> bytes) {
  // Up to 256 bytes come whole and cannot be interrupted.
  must(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
       "getrandom");
}

Mac hmac(base::ByteSpan key, std::string_view label, base::ByteSpan data) {
  base::Bytes input = base::to_bytes(label);
  input.insert(input.end(), data.begin(), data.end());
  Mac mac{};
  std::size_t size = 0;
  must(EVP_Q_mac(context(), "HMAC", nullptr, "SHA256", nullptr, key.data(), key.size(),
                 raw(input.data()), input.size(), raw(mac.data()), mac.size(), &size) != nullptr,
       "HMAC");
  return mac;
}

// HKDF-SHA256 (RFC 5869) for one block of output.
Mac hkdf(const Secret& secret, base::ByteSpan salt, std::string_view info) {
  Mac extracted = hmac(salt, {}, secret.bytes());
  constexpr std::byte kBlock{1};
  Mac key = hmac(extracted, info, {&kBlock, 1});
  OPENSSL_cleanse(extracted.data(), extracted.size());
  return key;
}

bool equal(base::ByteSpan a, base::ByteSpan b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// AES-256-GCM in one direction. A key serves one stream only, so the frame's number is its nonce.
class Aead {
 public:
  Aead(const Mac& key, bool encrypt) : context_(EVP_CIPHER_CTX_new()) {
    must(context_ != nullptr, "EVP_CIPHER_CTX_new");
    must(EVP_CipherInit_ex2(context_, aes_gcm(), raw(key.data()), nullptr, encrypt ? 1 : 0,
                            nullptr) == 1,
         "EVP_CipherInit_ex2");
  }
  Aead(const Aead&) = delete;
  Aead& operator=(const Aead&) = delete;
  ~Aead() { EVP_CIPHER_CTX_free(context_); }

  // Transforms in place; the tag is checked or made by finish().
  void run(std::span<std::byte> data) {
    std::array<unsigned char, 12> nonce{};
    std::memcpy(nonce.data() + 4, &counter_, sizeof counter_);
    ++counter_;
    int length = 0;
    must(EVP_CipherInit_ex2(context_, nullptr, nullptr, nonce.data(), -1, nullptr) == 1, "nonce");
    must(EVP_CipherUpdate(context_, raw(data.data()), &length, raw(data.data()),
                          static_cast<int>(data.size())) == 1,
         "EVP_CipherUpdate");
  }
  bool finish() {
    std::array<unsigned char, 16> none{};
    int length = 0;
    return EVP_CipherFinal_ex(context_, none.data(), &length) == 1;
  }
  void get_tag(std::span<std::byte> tag) {
    must(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, kTagSize, tag.data()) == 1, "tag");
  }
  void expect_tag(std::span<std::byte> tag) {
    must(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, kTagSize, tag.data()) == 1, "tag");
  }

 private:
  EVP_CIPHER_CTX* context_;
  std::uint64_t counter_ = 0;
};

class GcmSealer : public Sealer {
 public:
  explicit GcmSealer(const Mac& key) : aead_(key, true) {}
  void seal(base::Bytes& buffer, std::size_t start) override {
    std::size_t end = buffer.size();
    buffer.resize(end + kTagSize);
    auto sealed = std::span(buffer).subspan(start);
    aead_.run(sealed.first(end - start));
    must(aead_.finish(), "EVP_EncryptFinal");
    aead_.get_tag(sealed.last(kTagSize));
  }

 private:
  Aead aead_;
};

class GcmOpener : public Opener {
 public:
  explicit GcmOpener(const Mac& key) : aead_(key, false) {}
  base::Result<base::ByteSpan> open(std::span<std::byte> sealed) override {
    auto refuse = [] {
      return base::fail(base::Code::kAuth, "a sealed frame was changed, lost or repeated");
    };
    if (sealed.size() < kTagSize) return refuse();
    auto plain = sealed.first(sealed.size() - kTagSize);
    aead_.run(plain);
    aead_.expect_tag(sealed.last(kTagSize));
    if (!aead_.finish()) return refuse();
    return base::ByteSpan(plain);
  }

 private:
  Aead aead_;
};

constexpr std::string_view kFromClient = "hvrun client to server";
constexpr std::string_view kFromServer = "hvrun server to client";

template <class Kind>
auto make_direction(const Secret& secret, base::ByteSpan transcript, std::string_view direction) {
  Mac key = hkdf(secret, transcript, direction);
  auto made = std::make_unique<Kind>(key);
  OPENSSL_cleanse(key.data(), key.size());
  return made;
}

}  // namespace

// ---- Secret --------------------------------------------------------------------------------

Secret Secret::random() {
  Secret secret;
  fill_random(secret.bytes_);
  return secret;
}

base::Result<Secret> Secret::from_bytes(base::ByteSpan bytes) {
  if (bytes.size() != kSize) return base::fail(base::Code::kAuth, "a secret has 32 bytes");
  Secret secret;
  std::copy(bytes.begin(), bytes.end(), secret.bytes_.begin());
  return secret;
}

base::Result<Secret> Secret::from_hex(std::string_view hex) {
  auto refuse = [] { return base::fail(base::Code::kAuth, "a secret has 64 hexadecimal digits"); };
  if (hex.size() != 2 * kSize) return refuse();
  auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  Secret secret;
  for (std::size_t i = 0; i < kSize; ++i) {
    int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return refuse();
    secret.bytes_[i] = static_cast<std::byte>(high << 4 | low);
  }
  return secret;
}

std::string Secret::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * kSize);
  for (std::byte b : bytes_) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

Secret Secret::derive(std::string_view purpose) const {
  Secret derived;
  derived.bytes_ = hkdf(*this, Mac{}, "hvrun secret for " + std::string(purpose));
  return derived;
}

Secret::~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

// ---- handshake -----------------------------------------------------------------------------

ClientHandshake::ClientHandshake(const Secret& secret, Purpose purpose) : secret_(secret) {
  transcript_.reserve(kHelloSize + kNonceSize);
  base::Writer out(transcript_);
  out.append(base::as_bytes(kMagic));
  out.put(kProtocolVersion);
  out.put(purpose);
  transcript_.resize(kHelloSize);
  fill_random(std::span(transcript_).last(kNonceSize));
}

base::Bytes ClientHandshake::hello() const {
  return {transcript_.begin(), transcript_.begin() + kHelloSize};
}

base::Result<base::Bytes> ClientHandshake::on_reply(base::ByteSpan reply) {
  if (reply.size() != kReplySize || transcript_.size() != kHelloSize) {
    return base::fail(base::Code::kProtocol, "a handshake out of order");
  }
  auto nonce = reply.first(kNonceSize);
  transcript_.insert(transcript_.end(), nonce.begin(), nonce.end());
  if (!equal(hmac(secret_.bytes(), "server", transcript_), reply.subspan(kNonceSize))) {
    return base::fail(base::Code::kAuth, "what answers there does not hold this job's secret");
  }
  Mac proof = hmac(secret_.bytes(), "client", transcript_);
  return base::Bytes(proof.begin(), proof.end());
}

std::unique_ptr<Sealer> ClientHandshake::make_sealer() const {
  return make_direction<GcmSealer>(secret_, transcript_, kFromClient);
}
std::unique_ptr<Opener> ClientHandshake::make_opener() const {
  return make_direction<GcmOpener>(secret_, transcript_, kFromServer);
}

ServerHandshake::ServerHandshake(SecretFor secret_for) : secret_for_(std::move(secret_for)) {}

base::Result<base::Bytes> ServerHandshake::on_hello(base::ByteSpan hello) {
  if (hello.size() != kHelloSize || base::as_text(hello.first(kMagic.size())) != kMagic) {
    return base::fail(base::Code::kProtocol, "no hvrun process");
  }
  base::Reader in(hello.subspan(kMagic.size()));
  auto version = in.get<std::uint8_t>();
  if (version != kProtocolVersion) {
    return base::fail(base::Code::kProtocol, "protocol version " + std::to_string(version) +
                                                 ", ours is " + std::to_string(kProtocolVersion));
  }
  purpose_ = in.get<Purpose>();
  secret_ = secret_for_(purpose_);
  if (!secret_) {
    return base::fail(base::Code::kAuth, "purpose " + std::to_string(static_cast<int>(purpose_)) +
                                             " is not served here");
  }
  transcript_.assign(hello.begin(), hello.end());
  transcript_.resize(kHelloSize + kNonceSize);
  fill_random(std::span(transcript_).last(kNonceSize));
  base::Bytes reply(transcript_.end() - kNonceSize, transcript_.end());
  Mac mac = hmac(secret_->bytes(), "server", transcript_);
  reply.insert(reply.end(), mac.begin(), mac.end());
  return reply;
}

base::Result<void> ServerHandshake::on_proof(base::ByteSpan proof) {
  if (!secret_ || !equal(hmac(secret_->bytes(), "client", transcript_), proof)) {
    return base::fail(base::Code::kAuth, "a process without this job's secret");
  }
  return {};
}

std::unique_ptr<Sealer> ServerHandshake::make_sealer() const {
  return make_direction<GcmSealer>(*secret_, transcript_, kFromServer);
}
std::unique_ptr<Opener> ServerHandshake::make_opener() const {
  return make_direction<GcmOpener>(*secret_, transcript_, kFromClient);
}

}  // namespace hv::rendezvous
