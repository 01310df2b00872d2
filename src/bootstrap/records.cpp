// Queries for call records: flooded out, answered along the way they came.
#include "bootstrap/group.h"
#include "bootstrap/timer.h"

namespace tbccl::bootstrap {
namespace {

constexpr size_t kMaxRoutes = 8192;  // the oldest are forgotten
// A stopped process reads nothing. Its kernel must not be filled with queries: once the receive
// window is full, the user timeout would take it for gone.
constexpr uint32_t kMaxUnheardQueries = 64;

}  // namespace

void Group::query(uint32_t comm, uint64_t timeout_ns, Records done) {
  const uint64_t number = next_query_++;
  QueryState& q = queries_[number];
  q.comm = comm;
  q.records.resize(options_.size);
  for (uint32_t rank = 0; rank < options_.size; ++rank)
    q.records[rank].rank = static_cast<int>(rank);
  q.records[options_.rank] = own_record(comm);
  q.done = std::move(done);
  q.timer = std::make_unique<asio::steady_timer>(io_);
  set_timer(*q.timer, after(timeout_ns),
            [self = shared_from_this(), number] { self->finish_query(number); });
  const std::string bytes = frame(Type::kQuery, Query{options_.rank, number, comm}.encode());
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (peers_[rank].unheard_queries++ < kMaxUnheardQueries) send(rank, bytes);
  }
  if (closed_) return finish_query(number);
  check_queries();
}

PeerRecord Group::own_record(uint32_t comm) const {
  PeerRecord record;
  if (options_.events != nullptr) record = options_.events->record(comm);
  record.rank = static_cast<int>(options_.rank);
  record.answered = options_.events != nullptr;
  return record;
}

void Group::on_query(uint32_t from, const std::string& payload) {
  Query query;
  if (!Query::parse(payload, &query) || query.origin >= options_.size)
    return lost(from, "it broke the control protocol");
  // An origin's queries arrive in order on every path, so an old number is a copy.
  if (query.origin == options_.rank || query.number <= last_query_[query.origin]) return;
  last_query_[query.origin] = query.number;
  const RouteKey key{query.origin, query.number};
  routes_[key] = from;
  route_order_.push_back(key);
  if (route_order_.size() > kMaxRoutes) {
    routes_.erase(route_order_.front());
    route_order_.pop_front();
  }
  const std::string bytes = frame(Type::kQuery, payload);
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (rank != from && peers_[rank].unheard_queries++ < kMaxUnheardQueries) send(rank, bytes);
  }
  const PeerRecord mine = own_record(query.comm);
  Answer answer{
      query.origin, query.number, options_.rank, mine.number, mine.fingerprint, mine.text, {}};
  for (const int rank : mine.waiting_for) answer.waiting_for.push_back(static_cast<uint32_t>(rank));
  send(from, frame(Type::kAnswer, answer.encode()));
}

void Group::on_answer(uint32_t from, const std::string& payload) {
  Answer answer;
  if (!Answer::parse(payload, &answer) || answer.rank >= options_.size)
    return lost(from, "it broke the control protocol");
  if (answer.origin != options_.rank) {
    const auto route = routes_.find({answer.origin, answer.number});
    if (route != routes_.end()) send(route->second, frame(Type::kAnswer, payload));
    return;
  }
  PeerRecord record;
  record.rank = static_cast<int>(answer.rank);
  record.answered = true;
  record.number = answer.operation;
  record.fingerprint = answer.fingerprint;
  record.text = std::move(answer.text);
  for (const uint32_t rank : answer.waiting_for)
    record.waiting_for.push_back(static_cast<int>(rank));
  note_record(answer.number, std::move(record));
}

void Group::note_record(uint64_t number, PeerRecord record) {
  const auto it = queries_.find(number);
  if (it == queries_.end()) return;
  PeerRecord& place = it->second.records[static_cast<size_t>(record.rank)];
  if (!place.answered) place = std::move(record);
  check_queries();
}

// Ends the queries for which nothing more can come.
void Group::check_queries() {
  std::vector<uint64_t> complete;
  for (const auto& [number, query] : queries_) {
    bool waiting = false;
    for (uint32_t rank = 0; rank < options_.size; ++rank) {
      const Peer& peer = peers_[rank];
      waiting = waiting || (rank != options_.rank && !query.records[rank].answered && !peer.gone &&
                            !peer.finished);
    }
    if (!waiting) complete.push_back(number);
  }
  for (const uint64_t number : complete) finish_query(number);
}

void Group::finish_query(uint64_t number) {
  const auto it = queries_.find(number);
  if (it == queries_.end()) return;
  QueryState query = std::move(it->second);
  queries_.erase(it);
  query.timer->cancel();
  if (query.done) query.done(std::move(query.records));
}

}  // namespace tbccl::bootstrap
