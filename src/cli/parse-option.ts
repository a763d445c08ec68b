import { InvalidArgumentError } from "commander";

/** A parser of options that are whole numbers. */
export function wholeNumber(min: number, max: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (text.trim() === "" || !Number.isSafeInteger(number) || number < min || number > max) {
      throw new InvalidArgumentError(`It must be a whole number, ${max === Number.MAX_SAFE_INTEGER ? `${min} or more` : `${min} to ${max}`}.`);
    }
    return number;
  };
}
