// Errors: the problem documents (RFC 9457) of the gateway as exceptions, one class for each code that callers handle.

/** @typedef {import("../index.d.ts").Problem} Problem */

/**
 * A request that the gateway refused, or that it did not answer.
 */
export class GatewayError extends Error {
  /**
   * @param {Partial<Problem>} problem
   * @param {{ retryAfterSeconds?: number, cause?: unknown }} [how]
   */
  constructor(problem, { retryAfterSeconds, cause } = {}) {
    super(problem.detail || problem.title || "the gateway gave no reason", cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.status = problem.status ?? 0;
    this.code = problem.code ?? "error";
    this.construct = problem.construct;
    this.line = problem.line;
    this.column = problem.column;
    this.retryAfterSeconds = retryAfterSeconds;
  }

  /** Whether the same request may succeed later: the gateway was busy, failed, or did not answer. */
  get transient() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

export class QueryRefused extends GatewayError {}
export class DataRefused extends GatewayError {}
export class NotAllowed extends GatewayError {}
export class SubscriptionGone extends GatewayError {}
export class TokenRefused extends GatewayError {}
export class TokenMismatch extends GatewayError {}
export class Busy extends GatewayError {}
export class Unavailable extends GatewayError {}

/** @type {Record<string, typeof GatewayError>} */
const CLASSES = {
  "query-refused": QueryRefused, "data-refused": DataRefused, "not-allowed": NotAllowed,
  "subscription-gone": SubscriptionGone, "token-refused": TokenRefused, "token-mismatch": TokenMismatch,
  busy: Busy, unavailable: Unavailable, leaving: Unavailable, "clusters-merging": Unavailable,
};

/**
 * Return the error of a problem document.
 * @param {Partial<Problem>} problem
 * @param {number} [retryAfterSeconds]
 */
export function errorOf(problem, retryAfterSeconds) {
  const denied = problem.status === 401 || problem.status === 403;
  const known = Object.hasOwn(CLASSES, problem.code ?? "") ? CLASSES[problem.code ?? ""] : undefined;
  const found = known ?? (denied ? NotAllowed : GatewayError);
  return new found(problem, { retryAfterSeconds });
}

/**
 * Return the error of a response that is not `ok`; a proxy may have written it without a problem document.
 * @param {Response} response
 */
export async function errorOfResponse(response) {
  const seconds = Number(response.headers.get("Retry-After") ?? NaN);
  /** @type {Partial<Problem>} */
  let problem = {};
  try {
    const told = JSON.parse(await response.text());
    if (typeof told === "object" && told !== null) problem = told;
  } catch {
    // no problem document: the status alone is known
  }
  const { status, statusText } = response;
  const title = statusText || `HTTP status ${status}`;
  return errorOf({ title, ...problem, status }, seconds >= 0 ? seconds : undefined);
}

/**
 * Return the error of a gateway that does not answer.
 * @param {string} reason
 * @param {unknown} [cause]
 */
export function unreachable(reason, cause) {
  return new Unavailable({ title: "No answer", code: "unavailable", detail: reason }, { cause });
}
