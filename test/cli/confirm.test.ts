import { describe, expect, it } from "vitest";

import { confirm } from "../../src/cli/terminal.js";
import { FakeTerminal } from "./fake-terminal.js";

describe("confirmation", () => {
  it.each(["y", "Y", "yes", " Yes "])("goes on after %j", async (answer) => {
    const terminal = new FakeTerminal({ answers: [answer] });
    await confirm(terminal, "Something will go.", false);
    expect(terminal.asked).toEqual(["Something will go. Go on? [y/N] "]);
  });

  it.each(["", "n", "no", "yep", "y y"])("stops after %j", async (answer) => {
    await expect(confirm(new FakeTerminal({ answers: [answer] }), "Something will go.", false)).rejects.toMatchObject({ exitCode: 5 });
  });

  it("does not ask if the answer was given in advance", async () => {
    const terminal = new FakeTerminal({ answers: [] });
    await confirm(terminal, "Something will go.", true);
    expect(terminal.asked).toEqual([]);
  });

  it("stops if nobody is there", async () => {
    await expect(confirm(new FakeTerminal(), "Something will go.", false)).rejects.toMatchObject({ exitCode: 5, message: expect.stringContaining("--yes") as string });
  });
});
