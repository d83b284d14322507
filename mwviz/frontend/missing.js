// Why a number is not known of a rollout, and what would make it known. Pure.

const MODEL = "run a model with “Run on a model” above";

const REASONS = {
  drift: ({ view }) => `no model has scored ${view.name}: ${MODEL}`,
  size: ({ view }) => `no model has scored ${view.name}: ${MODEL}`,
  view: ({ view }) => `no model has scored ${view.name}: ${MODEL}`,
  change: ({ comparison, view }) => (comparison ? "these scores hold no entropy" : `no model has scored ${view.name}: ${MODEL}`),
  true: () => `no model has scored an exact view: ${MODEL}`,
  entropy: () => `no model has scored an exact view: ${MODEL}`,
  agent: () => "the log holds no log-probabilities; record them with the calls",
  gap({ comparison, recorded, view }) {
    if (!recorded) return "the log holds no log-probabilities; record them with the calls";
    return comparison ? "no call has a log-probability and a known temperature above 0" : `no model has scored ${view.name}: ${MODEL}`;
  },
  kl: ({ comparison, view }) => `whole distributions were not compared under ${view.name}: ${comparison ? "“Drift in charts” below has “Measure the distances”" : MODEL}`,
  advantage: () => "this page was not told of rewards",
  beside: () => "no two scorings are chosen: the tab “B - A” below asks for them",
};

/** The reason, as the end of a sentence; `facts` as of `metricOf`. */
export function whyNot(kind, facts) {
  return facts.fetched?.(kind, true)?.why ?? REASONS[kind](facts);
}
