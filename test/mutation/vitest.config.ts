/* Which tests judge the mutants of a run: `run.ts` names them. The unit tests only; the models and simulations take too long. */
import { defineConfig } from "vitest/config";

const tests = process.env["MUTATION_TESTS"];

export default defineConfig({
  test: {
    include: tests ? tests.split(";") : ["test/**/*.test.ts"],
    exclude: ["test/{models,simulation,architecture,mutation}/**", "**/node_modules/**"],
    setupFiles: ["test/support/seed.ts"],
    testTimeout: 60_000,
  },
});
