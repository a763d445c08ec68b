import fc from "fast-check";

/**
 * Properties and models draw the same cases in each run, so that a change is judged by the change and a failure comes back
 * when it is looked at. `MODEL_SEED=random` draws new ones, `MODEL_SEED=<number>` repeats those of a run.
 */
const { MODEL_SEED = "1" } = process.env;

if (MODEL_SEED !== "random") fc.configureGlobal({ seed: Number(MODEL_SEED) });
