import { configDefaults, defineConfig } from "vitest/config";

import { testsWithServers } from "./integration/support/account-tests.js";

const results = process.env["TEST_RESULTS"];

// On an account, without the tests that need a proxy or an emulator: see CONTRIBUTING.md.
const notOnAccount = process.env["AZURE_STORAGE_CONNECTION_STRING"] ? testsWithServers() : [];

export default defineConfig({
  test: {
    reporters: results ? ["default", ["json", { outputFile: results }]] : ["default"],
    // One group after the other: Vitest does not mix projects with different numbers of workers, and what is measured in
    // seconds (leases, timers) is not to be held up by compilers and installations.
    projects: [
      {
        test: { name: "unit", include: ["test/**/*.test.ts"], setupFiles: ["test/support/seed.ts"], maxWorkers: 2, testTimeout: 60_000 }, // a watchdog, as below
      },
      {
        test: {
          name: "integration",
          sequence: { groupOrder: 1 },
          include: ["integration/**/*.test.ts", "samples/**/*.test.ts"],
          exclude: [...configDefaults.exclude, "integration/{package,types}/**", ...notOnAccount],
          globalSetup: ["integration/support/azurite.setup.ts"],
          maxWorkers: 3, // much of the time is waiting for leases and timers; more would starve the one Azurite
          // A watchdog, and no measure: a busy machine is several times slower.
          testTimeout: 300_000,
          hookTimeout: 120_000,
          expect: { poll: { timeout: 30_000 } }, // 1 s by default
        },
      },
      {
        test: {
          name: "package",
          include: ["integration/{package,types}/**/*.test.ts"],
          globalSetup: ["integration/support/azurite.setup.ts", "integration/package/support/pack.setup.ts"],
          sequence: { groupOrder: 2 },
          maxConcurrency: 3,
          testTimeout: 600_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
