// Why a number is not known of a rollout, and what would make it known. Pure.

const MODEL = "run a model with “Run on a model” above";
const unscored = ({ view }) => `no model has scored ${view.name}: ${MODEL}`;
const unjudged = () => `no model has scored an exact view: ${MODEL}`;
const unrecorded = () => "the log holds no log-probabilities; record them with the calls";

const REASONS = {
  drift: unscored,
  size: unscored,
  view: unscored,
  change: (facts) => (facts.comparison ? "these scores hold no entropy" : unscored(facts)),
  true: unjudged,
  entropy: unjudged,
  agent: unrecorded,
  gap(facts) {
    if (!facts.recorded) return unrecorded();
    return facts.comparison ? "no call has a log-probability and a known temperature above 0" : unscored(facts);
  },
  kl: ({ comparison, view }) => `whole distributions were not compared under ${view.name}: ${comparison ? "“Drift in charts” below has “Measure the distances”" : MODEL}`,
  advantage: () => "this page was not told of rewards",
  beside: () => "no two scorings are chosen: the tab “B - A” below asks for them",
};

/** The reason, as the end of a sentence; `facts` as of `metricOf`. */
export function whyNot(kind, facts) {
  return facts.fetched?.(kind, true)?.why ?? REASONS[kind](facts);
}
