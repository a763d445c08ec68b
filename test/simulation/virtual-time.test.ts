import fc from "fast-check";
import { expect, it } from "vitest";
import { VirtualTime } from "./time/virtual-time.js";

it("runs timers in the order of their times, and what they lead to before the next one", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat({ max: 20 }), { maxLength: 40 }), fc.nat({ max: 39 }), async (times, cleared) => {
      const time = new VirtualTime(1);
      const seen: [at: number, index: number][] = [];
      await time.run(async () => {
        const timers = times.map((ms, index) =>
          setTimeout(() => {
            void Promise.resolve()
              .then(() => Promise.resolve())
              .then(() => seen.push([performance.now(), index]));
          }, ms),
        );
        clearTimeout(timers[cleared]);
        await time.sleep(30);
      });
      const wanted = times.map((ms, index): [number, number] => [ms, index]).filter(([, index]) => index !== cleared);
      expect(seen).toEqual(wanted.sort(([a, i], [b, j]) => a - b || i - j));
    }),
  );
});

it("takes over the clocks and the dice, and gives them back", async () => {
  const { random } = Math;
  const told = async (): Promise<unknown[]> => {
    const time = new VirtualTime(7);
    return time.run(async () => {
      await time.sleep(90_000_000);
      return [performance.now(), Date.now(), new Date().toISOString(), Math.random()];
    });
  };
  const first = await told();
  expect(first.slice(0, 3)).toEqual([90_000_000, Date.parse("2030-01-02T01:00:00Z"), "2030-01-02T01:00:00.000Z"]);
  expect(await told()).toEqual(first);
  expect(Math.random).toBe(random);
  expect(Date.now()).toBeLessThan(Date.parse("2030-01-02"));
});

it("says so when a run can never end", async () => {
  await expect(new VirtualTime(1).run(() => new Promise(() => undefined))).rejects.toThrow("nothing will ever happen again");
});

it("hands on what goes wrong in a timer", async () => {
  const time = new VirtualTime(1);
  const failing = time.run(async () => {
    setTimeout(() => {
      throw new Error("oops");
    }, 1);
    await time.sleep(10);
  });
  await expect(failing).rejects.toThrow("oops");
});
