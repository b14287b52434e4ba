#include "muster/rendezvous/munge.h"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "muster/base/shared_library.h"
#include "muster/job/crypto.h"

namespace muster::rendezvous {
namespace {

// As libmunge's ABI has them.
using Context = struct ContextTag*;
constexpr int kOptionTtl = 4, kOptionSocket = 8, kOptionUidRestriction = 9;
constexpr int kLongestTtl = -1;
constexpr int kSuccess = 0, kSnafu = 1, kSocket = 6, kTimeout = 7, kExpired = 15, kRewound = 16, kReplayed = 17;

// What is in the envelope: the token, which job it is for, and what people call that job.
constexpr size_t kNameSize = 32;
using Payload = std::array<unsigned char, job::Token::kSize + kNameSize + job::Token::kLongestJob>;
constexpr size_t kTextAt = job::Token::kSize + kNameSize;

void add_name(Payload& payload, std::string_view job) {
  crypto_generichash(&payload[job::Token::kSize], kNameSize, reinterpret_cast<const unsigned char*>(job.data()),
                     job.size(), nullptr, 0);
}

// kSystem: this machine's munged, which may be better later; kPeer: the credential.
Error munge_error(std::string_view what, ErrorKind kind = ErrorKind::kSystem) {
  return {kind, fmt::format("munge: {}", what), "is munged running on this machine?"};
}

// What munged returned, wiped when it is no longer needed.
struct Opened {
  void* bytes = nullptr;
  int size = 0;
  Opened() = default;
  ~Opened() {
    if (bytes != nullptr) sodium_memzero(bytes, static_cast<size_t>(size));
    std::free(bytes);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

}  // namespace

struct Munge::Library {
  SharedLibrary file;
  Context (*create)() = nullptr;
  void (*destroy)(Context) = nullptr;
  int (*set)(Context, int, ...) = nullptr;
  const char* (*context_error)(Context) = nullptr;
  const char* (*error)(int) = nullptr;
  int (*encode)(char**, Context, const void*, int) = nullptr;
  int (*decode)(const char*, Context, void**, int*, uid_t*, gid_t*) = nullptr;

  Result<void> find_functions() {
    return file.find("munge_ctx_create", create, "munge_ctx_destroy", destroy, "munge_ctx_set", set,
                     "munge_ctx_strerror", context_error, "munge_strerror", error, "munge_encode", encode,
                     "munge_decode", decode);
  }

  // None: out of memory, or a path that cannot be a socket's.
  std::shared_ptr<struct ContextTag> context(const std::string& socket) const {
    std::shared_ptr<struct ContextTag> context(create(), [this](Context each) {
      if (each != nullptr) destroy(each);
    });
    if (!context) return nullptr;
    if (!socket.empty() && set(context.get(), kOptionSocket, socket.c_str()) != kSuccess) return nullptr;
    return context;
  }
  Error why(Context context, int code) const {
    const char* text = context_error(context);
    if (text == nullptr) text = error(code);
    const bool daemon = code == kSnafu || code == kSocket || code == kTimeout;
    return munge_error(text == nullptr ? fmt::format("error {}", code) : text,
                       daemon ? ErrorKind::kSystem : ErrorKind::kPeer);
  }
};

Result<Munge> Munge::open(const std::string& socket) {
  MUSTER_TRY(SharedLibrary file, SharedLibrary::open({"libmunge.so.2"}));
  auto library = std::make_shared<Library>(Library{.file = std::move(file)});
  MUSTER_TRY_VOID(library->find_functions());
  Munge munge;
  munge.library_ = std::move(library);
  munge.socket_ = socket;
  return munge;
}

Result<std::string> Munge::seal(const job::Token& token, std::string_view job) const {
  job::init_crypto();
  auto context = library_->context(socket_);
  if (!context || library_->set(context.get(), kOptionTtl, kLongestTtl) != kSuccess ||
      library_->set(context.get(), kOptionUidRestriction, ::geteuid()) != kSuccess)
    return munge_error("no context");
  Payload payload;
  std::memcpy(payload.data(), token.data(), job::Token::kSize);
  add_name(payload, job);
  const size_t size = kTextAt + token.job().copy(reinterpret_cast<char*>(&payload[kTextAt]), job::Token::kLongestJob);
  char* text = nullptr;
  const int code = library_->encode(&text, context.get(), payload.data(), static_cast<int>(size));
  sodium_memzero(payload.data(), payload.size());
  if (code != kSuccess || text == nullptr) return library_->why(context.get(), code);
  std::string credential = text;
  std::free(text);
  if (credential.size() > kLongestCredential)
    return munge_error(fmt::format("a credential of {} bytes", credential.size()));
  return credential;
}

Result<job::Token> Munge::unseal(const std::string& credential, std::string_view job) const {
  job::init_crypto();
  auto context = library_->context(socket_);
  if (!context) return munge_error("no context");
  Opened opened;
  uid_t uid = 0;
  gid_t gid = 0;
  const int code = library_->decode(credential.c_str(), context.get(), &opened.bytes, &opened.size, &uid, &gid);
  if (code != kSuccess && code != kExpired && code != kRewound && code != kReplayed)
    return library_->why(context.get(), code);
  if (uid != ::geteuid())
    return Error{ErrorKind::kPeer, fmt::format("hands out another user's token (uid {})", uid), {}};
  Payload expected{};
  if (opened.bytes == nullptr || opened.size < static_cast<int>(kTextAt) ||
      opened.size > static_cast<int>(expected.size()))
    return Error{ErrorKind::kPeer, "hands out something that is not a token", {}};
  add_name(expected, job);
  const auto* bytes = static_cast<const unsigned char*>(opened.bytes);
  if (std::memcmp(bytes + job::Token::kSize, &expected[job::Token::kSize], kNameSize) != 0)
    return job::another_job(
        "", {reinterpret_cast<const char*>(bytes) + kTextAt, static_cast<size_t>(opened.size) - kTextAt});
  return job::Token::of_bytes(bytes);
}

}  // namespace muster::rendezvous
