/** Whether two types are the same: not only assignable both ways, but also alike in `any`, `readonly` and optional members. */
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** `typeOf(value).is<Expected>()` compiles only if the type of the value is exactly the expected one. */
export declare function typeOf<const Actual>(value: Actual): {
  is<Expected>(...difference: Equal<Actual, Expected> extends true ? [] : [{ actual: Actual; expected: Expected }]): void;
};

/** `same<A, B>()` compiles only if both types are the same. */
export declare function same<A, B>(...difference: Equal<A, B> extends true ? [] : [{ first: A; second: B }]): void;
