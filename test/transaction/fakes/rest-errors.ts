/** An error as the SDKs raise it: where the code stands differs by service and verb. */
export class FakeRestError extends Error {
  override readonly name = "RestError";
  readonly statusCode: number;
  readonly code?: string;
  readonly details?: unknown;

  constructor(statusCode: number, message: string, rest: { code?: string; details?: unknown }) {
    super(message);
    this.statusCode = statusCode;
    Object.assign(this, rest);
  }
}

export function blobError(statusCode: number, code: string): FakeRestError {
  return new FakeRestError(statusCode, code, { code, details: { errorCode: code } });
}

/** A HEAD has no body, so the SDK finds no `code`. */
export function headError(statusCode: number, code: string): FakeRestError {
  return new FakeRestError(statusCode, code, { details: { errorCode: code } });
}

export function tableError(statusCode: number, code: string): FakeRestError {
  return new FakeRestError(statusCode, code, { details: { errorCode: code, odataError: { code } } });
}
