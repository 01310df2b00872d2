#include "selection/tuner.h"

#include <vector>

#include "base/formatted.h"
#include "selection/overrides.h"
#include "selection/selection.h"

namespace tbccl::selection {
namespace {

constexpr int kClasses = 48;  // the last begins at 128 TiB

// Classes are 0-1, 2-3, 4-7, ...; the last has no end.
uint64_t class_begin(int number) { return number == 0 ? 0 : uint64_t{1} << number; }
uint64_t class_end(int number) {
  return number + 1 == kClasses ? UINT64_MAX : class_begin(number + 1) - 1;
}

// The answer for one class as an algorithm's name; empty: the library chooses.
Status ask(tbcclTuner_t tuner, void* context, const Question& question, int number,
           const schedule::Basis& basis, std::string* answer) {
  Choice choice;
  if (Status s = choose(question, basis, &choice); !s.ok()) return s;
  std::vector<const char*> names;
  std::vector<double> predictions;
  int library = -1;
  for (const Candidate& c : choice.candidates) {
    if (!c.eligible) continue;
    if (c.algorithm == choice.algorithm) library = static_cast<int>(names.size());
    names.push_back(c.algorithm.c_str());
    predictions.push_back(c.predicted_ns);
  }
  tbcclTunerQuestion_t asked = {};
  asked.size = sizeof asked;
  asked.operation = question.collective.operation;
  asked.nranks = basis.size;
  asked.minBytes = static_cast<size_t>(class_begin(number));
  asked.maxBytes = static_cast<size_t>(class_end(number));
  asked.candidates = static_cast<int>(names.size());
  asked.algorithms = names.data();
  asked.predictedNs = predictions.data();
  asked.libraryChoice = library;
  const int index = tuner(context, &asked);
  if (index >= asked.candidates)
    return {tbcclInvalidArgument,
            formatted("the tuner answered {} for {} of {} to {} bytes: there are {} candidates, "
                      "numbered from 0; a negative number leaves the choice to the library",
                      index, operation_name(question.collective.operation), asked.minBytes,
                      asked.maxBytes, asked.candidates)};
  *answer = index < 0 ? "" : names[static_cast<size_t>(index)];
  return {};
}

}  // namespace

Status ask_tuner(tbcclTuner_t tuner, void* context, schedule::Basis* basis) {
  std::vector<schedule::Preference> answers;
  for (tbcclOperation_t operation : operations()) {
    Question question;
    question.collective.operation = operation;
    std::string last;
    for (int number = 0; number < kClasses; number++) {
      question.count = class_begin(number);
      std::string answer;
      if (Status s = ask(tuner, context, question, number, *basis, &answer); !s.ok()) return s;
      if (!answer.empty() && answer == last) {
        answers.back().to = class_end(number);
      } else if (!answer.empty()) {
        answers.push_back({static_cast<int32_t>(operation), class_begin(number), class_end(number),
                           answer, basis->size});
      }
      last = std::move(answer);
    }
  }
  basis->preferences.insert(basis->preferences.begin(), answers.begin(), answers.end());
  return {};
}

}  // namespace tbccl::selection
