// Types of the client of the p2prdf gateway.

/** An IRI, with the properties of RDF/JS. */
export interface NamedNode {
  readonly termType: "NamedNode";
  readonly value: string;
  equals(other: unknown): boolean;
}

export interface BlankNode {
  readonly termType: "BlankNode";
  /** The label, without `_:`. The same label in two results is the same node. */
  readonly value: string;
  equals(other: unknown): boolean;
}

export interface Literal {
  readonly termType: "Literal";
  readonly value: string;
  /** The language tag; empty without one. */
  readonly language: string;
  /** The base direction of RDF 1.2; empty without one. */
  readonly direction: "ltr" | "rtl" | "";
  readonly datatype: NamedNode;
  equals(other: unknown): boolean;
}

export interface DefaultGraph {
  readonly termType: "DefaultGraph";
  readonly value: "";
  equals(other: unknown): boolean;
}

/** A triple term of RDF 1.2. */
export interface Quad {
  readonly termType: "Quad";
  readonly value: "";
  readonly subject: Term;
  readonly predicate: Term;
  readonly object: Term;
  readonly graph: DefaultGraph;
  equals(other: unknown): boolean;
}

export type Term = NamedNode | BlankNode | Literal | Quad;

/** A solution: terms by the names of variables, without `?`. An unbound variable is absent. */
export type Bindings = { readonly [variable: string]: Term | undefined };

export type QueryResult =
  | { readonly type: "bindings"; readonly variables: string[]; readonly bindings: Bindings[] }
  | { readonly type: "boolean"; readonly value: boolean }
  | { readonly type: "graph"; readonly ntriples: string };

export type Data = string | Uint8Array | Blob;

export interface GatewayOptions {
  /** Bearer token, or a function that returns it for each request. */
  token?: string | (() => string | Promise<string>);
  /** Replaces the global `fetch`, for example for a proxy. */
  fetch?: typeof fetch;
}

export interface RequestOptions {
  /** Seconds that the gateway may take; the gateway has a bound of its own. */
  timeoutSeconds?: number;
  signal?: AbortSignal;
}

export interface ChangeOptions {
  /** Media type of the data; `text/turtle` by default, which includes N-Triples. */
  contentType?: string;
  /** Graph of the statements that name none. */
  graph?: string;
  /** `indexed` (default): queries find all statements. `accepted`: enough nodes hold them. */
  level?: "indexed" | "accepted";
  signal?: AbortSignal;
}

export interface PublishOptions extends ChangeOptions {
  /** With a key a repeated publication counts once: repeat it after an error that is `transient`. */
  idempotencyKey?: string;
}

export interface Acknowledged {
  readonly statements: number;
  readonly acknowledged: "indexed" | "accepted";
}

export interface Updated {
  readonly inserted: number;
  readonly deleted: number;
}

export interface SubscribeOptions {
  /** `now` (default), or `beginning`: earlier publications count, too. */
  since?: "now" | "beginning";
  /**
   * Settled delivery: each change leads to a state of the graph, as of its `mark`. All publications count. `false`:
   * immediate delivery. Without it: the default of the nodes.
   */
  settled?: boolean;
  /** Seconds that the subscription outlives its connection; 60 by default, at most an hour by default. */
  leaseSeconds?: number;
  /**
   * Resume token: continue after the change that it came with. `since` and `leaseSeconds` are then ignored; `settled`
   * may be left out, and is otherwise that of the token.
   */
  resume?: string;
  /** Ends the subscription; the iteration throws the signal's reason. */
  signal?: AbortSignal;
  /** A connection that is silent for so many seconds counts as broken; 45 by default. */
  silenceSeconds?: number;
  /** Seconds after a first failed connection for which new ones are tried; 600 by default. */
  reconnectSeconds?: number;
  /** First and longest pause before a new connection; 500 and 15,000 by default. */
  pausesMs?: [first: number, longest: number];
  /** Solutions that may wait in memory before the connection is read no further; 10,000 by default. */
  readAheadMax?: number;
  /** Called before each pause. */
  onReconnect?: (error: GatewayError, pauseMs: number) => void;
}

/** Solutions that a subscription gained and lost: in one notification, or up to a mark. */
export interface Change {
  readonly added: Bindings[];
  readonly removed: Bindings[];
  /** Number of solutions that the overlay dropped because the subscriber was behind; such a change has no others. */
  readonly lost: number;
  /** Resume token after this change. Store it in one step with the effects of the change. */
  readonly token: string;
  /** With settled delivery: the changes so far make the answer to the graph as of this time, in seconds since 1970. */
  readonly mark?: number;
}

/** Iterates over changes, each once, over all reconnections. `break` closes it; so does `close()`. */
export interface Subscription extends AsyncIterableIterator<Change> {
  /** Number of the subscription, in hexadecimal. */
  readonly id: string;
  readonly variables: string[];
  /** Resume token after the last change that the iteration returned. */
  readonly token: string;
  next(): Promise<IteratorResult<Change, undefined>>;
  return(): Promise<IteratorResult<Change, undefined>>;
  /** Close the connection. The subscription waits for its lease, and can be resumed by `token`. */
  close(): void;
}

export declare class Gateway {
  /** `url`: of the gateway, such as `http://127.0.0.1:7480`. */
  constructor(url: string | URL, options?: GatewayOptions);
  /** Publish RDF; resolves when the publication is acknowledged. */
  publish(data: Data, options?: PublishOptions): Promise<Acknowledged>;
  /** Delete the statements of RDF without blank nodes; may be repeated. */
  retract(data: Data, options?: ChangeOptions): Promise<Acknowledged>;
  /** Execute SPARQL 1.1 Update; resolves when all changes are acknowledged. */
  update(update: string, options?: RequestOptions): Promise<Updated>;
  /** Answer a query once. */
  query(query: string, options?: RequestOptions): Promise<QueryResult>;
  /** Subscribe; resolves when the subscription is open. `query` may be null with `resume`. */
  subscribe(query: string | null, options?: SubscribeOptions): Promise<Subscription>;
}

/** A problem document of the gateway (RFC 9457). */
export interface Problem {
  readonly title: string;
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly construct?: string;
  readonly line?: number;
  readonly column?: number;
}

/** A refused or unanswered request. The message is the `detail` of the problem document. */
export declare class GatewayError extends Error {
  constructor(problem: Partial<Problem>, how?: { retryAfterSeconds?: number; cause?: unknown });
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** Code of docs/reference/errors.md. */
  readonly code: string;
  /** The refused construct of a query, and its place, where they are known. */
  readonly construct: string | undefined;
  readonly line: number | undefined;
  readonly column: number | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** Whether the same request may succeed later. */
  readonly transient: boolean;
}

/** The query or update is malformed or not supported. */
export declare class QueryRefused extends GatewayError {}
/** The data is malformed. */
export declare class DataRefused extends GatewayError {}
/** The token is missing or unknown, or lacks a permission. */
export declare class NotAllowed extends GatewayError {}
/** The subscription has ended; its solutions are lost. */
export declare class SubscriptionGone extends GatewayError {}
/** The resume token is damaged. */
export declare class TokenRefused extends GatewayError {}
/** The resume token belongs to another query. */
export declare class TokenMismatch extends GatewayError {}
/** A bound is reached: repeat after `retryAfterSeconds`. */
export declare class Busy extends GatewayError {}
/** The gateway or its node does not answer. */
export declare class Unavailable extends GatewayError {}
