import { expect, test } from "vitest";

import { pages } from "./pages.js";

/** Words that do not name the actor, metaphors, and words for which the documentation uses another one everywhere. */
const avoided = [
  "somebody", "nobody", "whoever", "everybody", "anybody", "by hand", "under way", "on its way", "put aside", "puts aside", "written aside",
  "answer", "answers", "answered", "lost race", "landed", "lands", "fate", "verdict", "deed", "manners", "storm", "stormed", "in the world",
  "take heed", "heed", "think better", "without a word", "goes through", "promised", "promises", "refuse", "refuses", "refused", "for ever",
];

/** The pages for users. Output of tools is left out: the names of benches, and the names of test files in backticks. */
const checked = pages.filter(({ path }) => path === "README.md" || path.startsWith("docs/"));

test.each(checked.map((page) => [page.path, page] as const))("%s uses the words of the field", (_path, page) => {
  const text = page.prose.replace(/<!-- figures[\s\S]*?<!-- end of figures -->/g, "").replace(/`[^`\n]*`/g, "");
  const found = avoided.flatMap((word) => [...text.matchAll(new RegExp(`^.*\\b${word}\\b.*$`, "gim"))].map(([line]) => `${word}: ${line}`));
  expect(found).toEqual([]);
});
