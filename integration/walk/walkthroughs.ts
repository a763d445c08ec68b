/**
 * The chapter "Walkthroughs" of CONTRIBUTING, as far as a trace can tell whether it is true:
 *
 * - Its introduction names the core files: those that many calls go through, and that a walkthrough need not name.
 * - A section has the call in its heading, as code, and names the other files in the order in which they are entered.
 * - An item or a paragraph that begins with "If" or "When" is about another case, and not part of the way.
 *
 * Files are named in full and as code: `src/errors.ts`. Only the first time counts.
 */
export class Walkthroughs {
  /** The core files. */
  readonly core: readonly string[];
  readonly #sections: readonly string[];

  constructor(contributing: string) {
    const chapter = contributing.split(/^## /m).find((each) => each.startsWith("Walkthroughs\n"));
    if (chapter === undefined) throw new Error('CONTRIBUTING has no chapter "## Walkthroughs"');
    const [introduction = "", ...sections] = chapter.split(/^### /m);
    this.core = filesIn(introduction);
    this.#sections = sections;
  }

  /** The files on the way of a call, in the order in which its section names them; core files too. */
  filesOf(call: string): readonly string[] {
    const section = this.#sections.find((each) => each.split("\n", 1)[0]?.includes(`\`${call}\``));
    if (section === undefined) throw new Error(`no section of the walkthroughs has \`${call}\` in its heading`);
    return filesIn(section.split(startOfBlock).filter((block) => !otherCase.test(block)).join("\n"));
  }
}

/** An empty line, or the end of a line before an item. */
const startOfBlock = /\n(?=\s*\n|\s*(?:\d+\.|[-*]) )/;

const otherCase = /^\s*(?:(?:\d+\.|[-*]) +)?[*_]*(?:If|When)\b/;

function filesIn(text: string): readonly string[] {
  return [...new Set([...text.matchAll(/`(src\/[\w./-]+\.ts)`/g)].map(([, file = ""]) => file))];
}
