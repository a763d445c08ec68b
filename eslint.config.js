import tseslint from "typescript-eslint";

import layers from "./eslint.layers.js";

export default tseslint.config(
  { ignores: ["integration/docs/.examples/**", "dist/**", "site/**", "coverage/**", "node_modules/**", ".stryker-tmp/**"] },
  {
    files: ["**/*.ts", "**/*.tsx"],
    extends: [...tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/consistent-type-imports": "error",
    },
  },
  ...layers,
  {
    // The library runs wherever the Azure SDKs run: no node: modules, no timers that fake clocks cannot move,
    // and nothing that breaks when an application holds a second copy of an SDK.
    files: ["src/**/*.ts"],
    ignores: ["src/testing/**", "src/testing.ts", "src/cli/**"],
    rules: {
      "no-restricted-syntax": [
        "error",
        { selector: "ImportExpression[source.value=/^node:/]", message: "src/ outside src/testing/ and src/cli/ uses web standards only." },
        { selector: "MemberExpression[object.name='AbortSignal'][property.name='timeout']", message: "Fake timers cannot move AbortSignal.timeout." },
        { selector: "BinaryExpression[operator='instanceof'][right.name=/(Client|RestError|Credential)$/]", message: "Apps may hold another copy of the SDK: compare structure." },
      ],
    },
  },
  {
    files: ["test/**/*.ts", "integration/**/*.ts", "bench/**/*.ts", "samples/**/*.ts"],
    rules: {
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/require-await": "off",
    },
  },
  {
    // Compiled, never run: lines that do nothing, and lines that must not compile.
    files: ["integration/types/*.ts"],
    rules: {
      "@typescript-eslint/ban-ts-comment": "off",
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/no-duplicate-type-constituents": "off",
      "@typescript-eslint/no-invalid-void-type": "off",
      "@typescript-eslint/no-meaningless-void-operator": "off",
      "@typescript-eslint/no-unnecessary-type-arguments": "off",
      "@typescript-eslint/no-unnecessary-type-parameters": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-return": "off",
      "@typescript-eslint/no-unused-expressions": "off",
    },
  },
);
