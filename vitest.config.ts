import { configDefaults, defineConfig } from "vitest/config";

const results = process.env["TEST_RESULTS"];

export default defineConfig({
  test: {
    reporters: results ? ["default", ["json", { outputFile: results }]] : ["default"],
    // One group after the other: Vitest does not mix projects with different numbers of workers, and what is measured in
    // seconds (leases, timers) is not to be held up by compilers and installations.
    projects: [
      {
        test: { name: "unit", include: ["test/**/*.test.ts"], testTimeout: 10_000 },
      },
      {
        test: {
          name: "integration",
          sequence: { groupOrder: 1 },
          include: ["integration/**/*.test.ts"],
          exclude: [...configDefaults.exclude, "integration/{package,types}/**"],
          globalSetup: ["integration/support/azurite.setup.ts"],
          maxWorkers: 3, // much of the time is waiting for leases and timers; more would starve the one Azurite
          testTimeout: 120_000,
          hookTimeout: 60_000,
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
