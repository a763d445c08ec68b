import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

/** The root of the repository. */
export const root: string = join(import.meta.dirname, "../..");

/** One code block of a page. */
export interface CodeBlock {
  /** Page and line, for the names of tests. */
  readonly where: string;
  readonly language: string;
  readonly code: string;
}

/** One page of the documentation. */
export class Page {
  /** Relative to the root. */
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly CodeBlock[];
  /** The text without code blocks. */
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

  /** The targets of the links on this page, relative to the root, and their anchors. External links are left out. */
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

  /** The anchors of its headings, as GitHub generates them. */
  get anchors(): string[] {
    const seen = new Map<string, number>();
    return [...this.prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => {
      const slug = heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-");
      const before = seen.get(slug) ?? 0;
      seen.set(slug, before + 1);
      return before === 0 ? slug : `${slug}-${before}`;
    });
  }

  /** The files of the repository that it names. Patterns are left out. */
  get namedFiles(): string[] {
    const named = this.prose.matchAll(/`((?:src|test|integration|bench|samples|docs)\/[\w./-]+)`/g);
    return [...named].map(([, path = ""]) => path);
  }
}

/** All pages except the reports in `docs/api`: they list all exports and describe none. */
export const pages: readonly Page[] = [
  "README.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  "SECURITY.md",
  "SUPPORT.md",
  "CODE_OF_CONDUCT.md",
  "samples/README.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md") && !path.startsWith("api/"))
    .map((path) => join("docs", path))
    .sort(),
].map((path) => new Page(path));
