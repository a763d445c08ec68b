import type { KnipConfig } from "knip";

export default {
  entry: [
    "src/{index,clients,testing}.ts",
    "samples/**/*.ts",
    // Bundled by the build.
    "src/cli/dashboard/page/{page.tsx,write.ts}",
    "bench/benches/*.ts",
    "{bench,integration/chaos}/*.ts",
    // Named in the options of Stryker.
    "test/mutation/{vitest.config.ts,ignore-messages.js}",
    // Started as processes of their own.
    "integration/**/workers/*.ts",
    "integration/browser/page.ts",
    "integration/samples/scenes.ts",
    "integration/conformance/generate.ts",
    "integration/package/apps/*.{ts,js,cjs}",
    // Compiled by the type tests.
    "integration/types/*.ts",
  ],
  project: ["{src,test,integration,samples,bench}/**/*.{ts,tsx,js,cjs}"],
  // A type that a file exports beside what it is part of does no harm.
  ignoreExportsUsedInFile: true,
  rules: { duplicates: "off" },
  // Of the operating system: gives a program a terminal.
  ignoreBinaries: ["script"],
  ignoreDependencies: [
    // Named in the options of Stryker.
    "@stryker-mutator/vitest-runner",
    // Started as programs.
    "@arethetypeswrong/cli",
    "azurite",
  ],
} satisfies KnipConfig;
