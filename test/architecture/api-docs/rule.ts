import ts from "typescript";

/** One gap in the comments of the public API. */
export interface Finding {
  readonly file: string;
  readonly line: number;
  /** An export, or an export and its member: `BlobLocks.acquire`. */
  readonly name: string;
  readonly problem: string;
}

export interface RuleOptions {
  /** Paths of the entries. The exports of the first one need an example. */
  readonly entries: readonly string[];
  /** The members of types in these folders mirror those of the Azure SDKs, whose documentation describes them. */
  readonly mirrors: (file: string) => boolean;
}

/**
 * Checks the comments of all that the entries export:
 * - an export and each of its public members have a sentence;
 * - an export of the first entry has an `@example`, or a `{@link}` to an export that has one;
 * - a function or method that returns a promise or that throws has `@throws`;
 * - an optional member of an `…Options` type has `@defaultValue`.
 *
 * Members without a comment inherit that of the interface or class that declares them first. Members whose name is a symbol, such
 * as `Symbol.asyncDispose`, mean the same in all programs and need no comment. Neither do the members of a type that only lists
 * exported classes by name: the classes have their own.
 */
export function checkApiDocs(program: ts.Program, options: RuleOptions): Finding[] {
  return new ApiDocs(program, options).check();
}

class ApiDocs {
  readonly #program: ts.Program;
  readonly #checker: ts.TypeChecker;
  readonly #options: RuleOptions;
  readonly #findings: Finding[] = [];

  constructor(program: ts.Program, options: RuleOptions) {
    this.#program = program;
    this.#checker = program.getTypeChecker();
    this.#options = options;
  }

  check(): Finding[] {
    const checked = new Set<ts.Symbol>();
    for (const [position, entry] of this.#options.entries.entries()) {
      const exported = this.#exportsOf(entry);
      const withExample = new Set(exported.filter((symbol) => this.#has(symbol, "example")).map(({ name }) => name));
      for (const symbol of exported) {
        const declaration = this.#ownDeclaration(symbol);
        if (!declaration || checked.has(symbol)) continue;
        checked.add(symbol);
        this.#checkSentence(symbol, declaration, symbol.name);
        if (position === 0) this.#checkExample(symbol, declaration, withExample);
        if (ts.isFunctionDeclaration(declaration)) this.#checkThrows(symbol, symbol.name);
        if (!this.#listsClasses(symbol, exported)) this.#checkMembers(symbol);
      }
    }
    return this.#findings.toSorted((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
  }

  #exportsOf(entry: string): ts.Symbol[] {
    const source = this.#program.getSourceFile(entry);
    const module = source && this.#checker.getSymbolAtLocation(source);
    if (!module) throw new Error(`${entry} is no module of the program`);
    const resolve = (symbol: ts.Symbol): ts.Symbol => (symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol);
    return this.#checker.getExportsOfModule(module).map(resolve);
  }

  /** The first declaration, unless another package declares it. */
  #ownDeclaration(symbol: ts.Symbol): ts.Declaration | undefined {
    return symbol.declarations?.find((declaration) => !declaration.getSourceFile().fileName.includes("/node_modules/"));
  }

  #checkExample(symbol: ts.Symbol, declaration: ts.Declaration, withExample: ReadonlySet<string>): void {
    if (withExample.has(symbol.name) || linksOf(symbol).some((name) => withExample.has(name))) return;
    this.#report(declaration, symbol.name, "no @example, and no {@link} to an export that has one");
  }

  #checkMembers(symbol: ts.Symbol): void {
    const members = (symbol.declarations ?? []).flatMap(membersOf);
    const isOptions = symbol.name.endsWith("Options");
    const seen = new Set<ts.Symbol>();
    for (const member of members) {
      const memberSymbol = this.#symbolOf(member);
      if (!memberSymbol || seen.has(memberSymbol) || !isPublic(member)) continue;
      seen.add(memberSymbol);
      if (this.#options.mirrors(member.getSourceFile().fileName)) continue;
      const name = `${symbol.name}.${ts.isConstructorDeclaration(member) ? "constructor" : memberSymbol.name}`;
      this.#checkSentence(memberSymbol, member, name);
      if (isOptions && isOptional(memberSymbol) && !this.#has(memberSymbol, "defaultValue")) this.#report(member, name, "no @defaultValue");
      if (!isOptions && !ts.isConstructorDeclaration(member)) this.#checkThrows(memberSymbol, name);
    }
  }

  #listsClasses(symbol: ts.Symbol, exported: readonly ts.Symbol[]): boolean {
    const members = (symbol.declarations ?? []).flatMap(membersOf);
    const classOf = (member: ts.ClassElement | ts.TypeElement): ts.Symbol | undefined =>
      ts.isPropertySignature(member) && member.type ? this.#checker.getTypeFromTypeNode(member.type).getSymbol() : undefined;
    const isListed = (listed: ts.Symbol | undefined): boolean => listed !== undefined && (listed.flags & ts.SymbolFlags.Class) !== 0 && exported.includes(listed);
    return members.length > 0 && members.map(classOf).every(isListed);
  }

  #symbolOf(member: ts.ClassElement | ts.TypeElement): ts.Symbol | undefined {
    // A constructor has no name, and its symbol is shared by all overloads.
    if (ts.isConstructorDeclaration(member)) return (member as { symbol?: ts.Symbol }).symbol;
    return member.name && this.#checker.getSymbolAtLocation(member.name);
  }

  #checkSentence(symbol: ts.Symbol, declaration: ts.Declaration, name: string): void {
    const text = ts.displayPartsToString(symbol.getDocumentationComment(this.#checker)).trim();
    const inherits = /@inheritDoc/i.test(text);
    if (!inherits && !/\w.*[.!?:]/s.test(text)) this.#report(declaration, name, text === "" ? "no sentence" : "no complete sentence");
  }

  #checkThrows(symbol: ts.Symbol, name: string): void {
    const declarations = symbol.declarations ?? [];
    const [declaration] = declarations;
    if (!declaration || this.#has(symbol, "throws")) return;
    const type = this.#checker.getTypeOfSymbolAtLocation(symbol, declaration);
    const returns = this.#checker.getNonNullableType(type).getCallSignatures().map((signature) => signature.getReturnType());
    if (returns.some((result) => this.#canReject(result))) this.#report(declaration, name, "returns a promise, no @throws");
    else if (declarations.some(throwsItself)) this.#report(declaration, name, "throws, no @throws");
  }

  #canReject(type: ts.Type): boolean {
    const parts = type.isUnion() ? type.types : [type];
    return parts.some((part) => part.getSymbol()?.name === "Promise" || part.getProperties().some(({ name }) => name.startsWith("__@asyncIterator")));
  }

  #has(symbol: ts.Symbol, tag: string): boolean {
    return symbol.getJsDocTags(this.#checker).some(({ name }) => name === tag);
  }

  #report(declaration: ts.Declaration, name: string, problem: string): void {
    const source = declaration.getSourceFile();
    const { line } = source.getLineAndCharacterOfPosition(declaration.getStart(source));
    this.#findings.push({ file: source.fileName, line: line + 1, name, problem });
  }
}

function membersOf(declaration: ts.Declaration): readonly (ts.ClassElement | ts.TypeElement)[] {
  if (ts.isClassDeclaration(declaration) || ts.isInterfaceDeclaration(declaration)) return declaration.members;
  if (ts.isTypeAliasDeclaration(declaration) && ts.isTypeLiteralNode(declaration.type)) return declaration.type.members;
  return [];
}

function isPublic(member: ts.ClassElement | ts.TypeElement): boolean {
  const hidden = ts.getCombinedModifierFlags(member) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected);
  const byName = !member.name || !(ts.isPrivateIdentifier(member.name) || ts.isComputedPropertyName(member.name));
  // Without parameters there is nothing to say that the comment of the class does not.
  const isBare = ts.isConstructorDeclaration(member) && member.parameters.length === 0;
  return !hidden && byName && !isBare && !ts.getJSDocTags(member).some(({ tagName }) => tagName.text === "internal");
}

function isOptional(symbol: ts.Symbol): boolean {
  return (symbol.flags & ts.SymbolFlags.Optional) !== 0;
}

/** The names that the comment of a declaration links to; of `{@link A.b}`, the export `A`. */
function linksOf(symbol: ts.Symbol): string[] {
  const comments = (symbol.declarations ?? []).flatMap((declaration) => ts.getJSDocCommentsAndTags(declaration).map((comment) => comment.getText()));
  return comments.flatMap((text) => [...text.matchAll(/\{@link(?:code|plain)?\s+(\w+)/g)].flatMap(([, name]) => name ?? []));
}

/** Whether a function throws, or checks its arguments; what the functions inside of it do does not count. */
function throwsItself(declaration: ts.Declaration): boolean {
  const body = (declaration as ts.FunctionLikeDeclaration).body;
  const visit = (node: ts.Node): boolean => {
    if (ts.isFunctionLike(node)) return false;
    if (ts.isThrowStatement(node)) return true;
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression) && /^check[A-Z]/.test(node.expression.text)) return true;
    return ts.forEachChild(node, visit) ?? false;
  };
  return body !== undefined && visit(body);
}
