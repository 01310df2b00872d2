#include "bootstrap/unique_id.h"

#include <algorithm>
#include <cstring>

#include "base/formatted.h"
#include "base/log.h"
#include "bootstrap/address.h"
#include "bootstrap/control.h"
#include "bootstrap/root.h"
#include "bootstrap/service.h"
#include "bootstrap/timer.h"
#include "topology/host.h"

namespace tbccl::bootstrap {
namespace {

constexpr char kIdMagic[4] = {'T', 'B', 'I', 'D'};
constexpr size_t kIdBody = TBCCL_UNIQUE_ID_BYTES - 8;  // the last eight bytes are a check sum

}  // namespace

uint64_t host_hash(std::string_view identity) {
  uint64_t h = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : identity) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return h;
}

tbcclUniqueId encode_id(const IdContent& content) {
  Writer w;
  w.raw(kIdMagic, sizeof kIdMagic);
  w.u16(kWireVersion);
  w.raw(content.session.data(), content.session.size());
  w.u64(content.host);
  w.u16(content.port);
  Writer list;
  uint8_t count = 0;
  size_t room = kIdBody - 33;
  for (const Endpoint& e : content.endpoints) {
    const size_t bytes = e.v6 ? 17 : 5;
    if (bytes > room) continue;
    room -= bytes;
    list.u8(e.v6 ? 6 : 4);
    list.raw(e.address.data(), bytes - 1);
    ++count;
  }
  w.u8(count);
  std::string bytes = w.take() + list.take();
  bytes.resize(kIdBody, '\0');
  Writer sum;
  sum.u64(host_hash(bytes));
  bytes += sum.take();
  tbcclUniqueId id;
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  return id;
}

Status decode_id(const tbcclUniqueId& id, IdContent* content) {
  const Status bad(tbcclInvalidArgument,
                   "the unique id is not one that tbcclGetUniqueId of this version gave; all 128 "
                   "bytes have to be "
                   "passed on, also those that are zero");
  Reader sum(std::string_view(id.internal + kIdBody, 8));
  if (sum.u64() != host_hash({id.internal, kIdBody})) return bad;
  Reader r(std::string_view(id.internal, kIdBody));
  char magic[4] = {};
  r.raw(magic, sizeof magic);
  if (std::memcmp(magic, kIdMagic, sizeof magic) != 0 || r.u16() != kWireVersion) return bad;
  r.raw(content->session.data(), content->session.size());
  content->host = r.u64();
  content->port = r.u16();
  content->endpoints.clear();
  const uint8_t count = r.u8();
  for (uint8_t i = 0; i < count && r.ok(); ++i) {
    Endpoint e;
    const uint8_t family = r.u8();
    if (family != 4 && family != 6) return bad;
    e.v6 = family == 6;
    e.port = content->port;
    r.raw(e.address.data(), e.v6 ? 16 : 4);
    content->endpoints.push_back(e);
  }
  return r.ok() && content->port != 0 ? Status() : bad;
}

Status make_unique_id(const Settings& settings, tbcclUniqueId* id) {
  Root::Options options;
  PortRange range;
  IdContent content;
  std::shared_ptr<Service> service;
  if (Status s = Authenticator::make(settings.secret, &options.authenticator); !s.ok()) return s;
  if (Status s = parse_port_range(settings.port_range, &range); !s.ok()) return s;
  if (Status s = Service::acquire(&service); !s.ok()) return s;
  if (!random_bytes(content.session.data(), content.session.size())) {
    return Status(tbcclSystemError, "the system gives no random bytes");
  }
  content.host = host_hash(topology::host_identity());
  for (const LocalAddress& a : local_addresses(settings.socket_interface)) {
    if (!is_loopback(a.endpoint)) content.endpoints.push_back(a.endpoint);
  }
  options.fixed_session = true;
  options.session = content.session;
  options.limit_ns = settings.connect_timeout_ns;
  options.late_ns = settings.connect_timeout_ns;
  options.deadline_ns = after(settings.connect_timeout_ns);
  options.where = formatted("the process that made the unique id (process {} on {})", getpid(),
                            topology::host_name());
  options.variable = "the id is";
  Status status;
  service->run([&] {
    // The root, and with it the control thread, stays until it has ended.
    const auto held =
        std::make_shared<std::pair<std::shared_ptr<Service>, std::shared_ptr<Root>>>();
    options.ended = [held] { *held = {}; };
    const auto root = std::make_shared<Root>(service->io(), std::move(options));
    status = root->open_all(range);
    if (!status.ok()) return root->close();
    content.port = root->port();
    *held = {service, root};
  });
  if (status.ok()) *id = encode_id(content);
  return status;
}

}  // namespace tbccl::bootstrap
