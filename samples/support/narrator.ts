/* Plain lines that read well in a log, with a little colour on a terminal. */
const colour = process.stdout.isTTY && !process.env["NO_COLOR"];
const paint = (code: number, text: string): string => (colour ? `\u001b[${code}m${text}\u001b[0m` : text);

export const say = {
  title: (text: string): void => console.log(`\n${paint(1, `== ${text} ==`)}`),
  step: (text: string): void => console.log(`  ${text}`),
  result: (text: string): void => console.log(`  ${paint(32, `-> ${text}`)}`),
  warn: (text: string): void => console.log(`  ${paint(33, `!  ${text}`)}`),
};
