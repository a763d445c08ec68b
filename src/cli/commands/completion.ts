import { Argument } from "commander";
import type { Command } from "commander";
import type { Terminal } from "../terminal.js";

const shells = ["bash", "zsh", "fish"] as const;
type Shell = (typeof shells)[number];

/** `completion`: a script that completes commands and options. */
export function addCompletion(program: Command, terminal: Terminal): void {
  program
    .command("completion")
    .description('print a script that completes commands and options, for example in ~/.bashrc: eval "$(asc completion bash)"')
    .addArgument(new Argument("<shell>", "your shell").choices(shells))
    .action((shell: Shell) => terminal.out(scripts[shell](linesOf(program))));
}

/** What may follow a command: its commands and options, with their descriptions. */
interface Line {
  /** The words that lead to it, without the name of the program. */
  readonly path: string;
  readonly words: readonly { readonly word: string; readonly description: string }[];
}

function linesOf(program: Command): Line[] {
  const global = optionsOf(program);
  const lines: Line[] = [];
  const add = (command: Command, path: readonly string[]): void => {
    const own = path.length === 0 ? [] : optionsOf(command);
    const commands = command.commands.map((sub) => ({ word: sub.name(), description: sub.description() }));
    const values = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices.map((word) => ({ word, description: "" })));
    lines.push({ path: path.join(" "), words: [...commands, ...values, ...own, ...global, { word: "--help", description: "show help" }] });
    for (const sub of command.commands) add(sub, [...path, sub.name()]);
  };
  add(program, []);
  return lines;
}

function optionsOf(command: Command): { word: string; description: string }[] {
  return command.options.flatMap(({ long, description }) => (typeof long === "string" ? [{ word: long, description }] : []));
}

const programs = ["asc", "azure-storage-concurrency"];

/** The words up to the cursor that are commands: options, their values and names are passed over, as no command has such a name. */
const scripts: Readonly<Record<Shell, (lines: readonly Line[]) => string>> = {
  bash: (lines) => `_asc() {
  local path="" word next
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${path:+$path }$word"
    case "$next" in
      ${lines.filter(({ path }) => path !== "").map(({ path }) => quote(path)).join("|")}) path="$next" ;;
    esac
  done
  case "$path" in
${lines.map(({ path, words }) => `    ${quote(path)}) COMPREPLY=($(compgen -W ${quote(words.map(({ word }) => word).join(" "))} -- "\${COMP_WORDS[COMP_CWORD]}")) ;;`).join("\n")}
  esac
}
complete -o default -F _asc ${programs.join(" ")}
`,
  zsh: (lines) => `#compdef ${programs.join(" ")}
_asc() {
  local cmd="" word next
  local -a choices
  for word in "\${(@)words[2,CURRENT-1]}"; do
    next="\${cmd:+$cmd }$word"
    case "$next" in
      (${lines.filter(({ path }) => path !== "").map(({ path }) => quote(path)).join("|")}) cmd="$next" ;;
    esac
  done
  case "$cmd" in
${lines.map(({ path, words }) => `    (${quote(path)}) choices=(${words.map(({ word, description }) => quote(`${word}${description === "" ? "" : `:${description}`}`)).join(" ")}) ;;`).join("\n")}
  esac
  _describe asc choices || _files
}
if [ "$funcstack[1]" = "_asc" ]; then _asc "$@"; else compdef _asc ${programs.join(" ")}; fi
`,
  fish: (lines) => `function __asc_path
  set -l path
  for word in (commandline -opc)[2..-1]
    set -l next (string join -- " " $path $word)
    if contains -- "$next" ${lines.filter(({ path }) => path !== "").map(({ path }) => quote(path)).join(" ")}
      set path $path $word
    end
  end
  string join -- " " $path
end
${programs.map((program) => `complete -c ${program} -f`).join("\n")}
${programs
  .flatMap((program) => lines.flatMap(({ path, words }) => words.map(({ word, description }) => `complete -c ${program} -n ${quote(`test "$(__asc_path)" = "${path}"`)} ${word.startsWith("--") ? `-l ${word.slice(2)}` : `-a ${word}`}${description === "" ? "" : ` -d ${quote(description)}`}`)))
  .join("\n")}
`,
};

/** For a shell: nothing in it is expanded. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
