// What a visitor types into the search box, as the theme's search reads it: without words that say nothing, with exact
// matches of words of up to four letters (`^1`; the theme completes all others), and with the words of these pages.
const STOP = new Set(
  `a about an and another any are as at be been but by can could did do does doing each existing for from get gets give
  has have how i if in instead into is it its let like make makes many me much must my need no not of off on one or our out
  own please possible same set should show so some support than that the their them then there these they this those to
  too up us use used uses using want way we what when where whether which while who why will with within without work works
  would you your`.split(/\s+/),
);
const SYNONYMS = {
  benchmark: "task", budget: "tokens", categories: "category", confidence: "interval", continue: "resume", cot: "chain_of_thought",
  costs: "cost", crashed: "broke", cutoff: "cut-off", dataframe: "table", deepspeed: "gpus", excel: "spreadsheet", expensive: "cost",
  fewshot: "few-shot", finetune: "training", finetuning: "training", gpus: "gpu", grader: "judge", graph: "chart", huggingface: "hf",
  leaked: "contamination", llm: "model", logprob: "log-probabilities", logprobs: "log-probabilities", metric: "score", multi: "several",
  oom: "memory", plot: "chart", price: "cost", restart: "resume", sample: "question", samples: "questions", significant: "difference",
  significantly: "difference interval", subject: "category", subjects: "category", topic: "category", topics: "category", type: "kind",
  types: "kind",
};

function rewritten(query) {
  if (/["+*:^~]/.test(query)) return query; // the visitor knows the search's own language
  const words = query.toLowerCase().replace(/chain of thought/g, "chain_of_thought").match(/[\p{L}\p{N}_.]+/gu) || [];
  const telling = words.filter((word) => !STOP.has(word));
  const kept = telling.length ? telling : words;
  return kept
    .flatMap((word) => {
      const others = (SYNONYMS[word] || "").match(/\w+/g) || [];
      return [word.length > 4 ? word : `${word}^1`, ...others.map((other) => `${other}^1`)];
    })
    .join(" ");
}

const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  const asked = message && message.type === 2 && typeof message.data === "string"; // a query, in the theme's protocol
  return post.call(this, asked ? { ...message, data: rewritten(message.data) } : message, ...rest);
};
