import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

/** The root of the repository. */
export const root: string = join(import.meta.dirname, "../..");

/** One piece of code on a page. */
export interface CodeBlock {
  /** For the names of tests: page and line. */
  readonly where: string;
  readonly language: string;
  readonly code: string;
}

/** One page of the documentation. */
export class Page {
  /** From the root. */
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly CodeBlock[];
  /** Without code. */
  readonly prose: string;

  constructor(path: string) {
    this.path = path;
    this.text = readFileSync(join(root, path), "utf8");
    const fences = [...this.text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)];
    this.blocks = fences.map(({ 1: language = "", 2: code = "", index }) => ({
      where: `${path}:${this.text.slice(0, index).split("\n").length}`,
      language,
      code,
    }));
    this.prose = fences.reduce((text, [fence]) => text.replace(fence, ""), this.text);
  }

  /** What stands behind a link on this page, from the root, and the anchor in it. Links to other places are left out. */
  get links(): { target: string; anchor: string | undefined }[] {
    const found = [...this.prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
    return found
      .filter((link) => !/^[a-z]+:/.test(link))
      .map((link) => {
        const [path = "", anchor] = link.split("#");
        const target = path === "" ? this.path : relative(root, resolve(root, dirname(this.path), path));
        return { target, anchor };
      });
  }

  /** The anchors of its headings, as GitHub makes them. */
  get anchors(): string[] {
    const seen = new Map<string, number>();
    return [...this.prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => {
      const slug = heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-");
      const before = seen.get(slug) ?? 0;
      seen.set(slug, before + 1);
      return before === 0 ? slug : `${slug}-${before}`;
    });
  }

  /** Files of the repository that it names. Patterns are left out. */
  get namedFiles(): string[] {
    const named = this.prose.matchAll(/`((?:src|test|integration|bench|samples|docs)\/[\w./-]+)`/g);
    return [...named].map(([, path = ""]) => path);
  }
}

/** All of it but the reports in `docs/api`: they name everything that is exported, and describe nothing. */
export const pages: readonly Page[] = [
  "README.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md") && !path.startsWith("api/"))
    .map((path) => join("docs", path))
    .sort(),
].map((path) => new Page(path));
