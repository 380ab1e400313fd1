// The public names of the package; index.d.ts has their types.

export {
  Busy, DataRefused, GatewayError, NotAllowed, QueryRefused, SubscriptionGone, TokenMismatch, TokenRefused, Unavailable,
} from "./errors.js";
export { Gateway } from "./gateway.js";
export { Subscription } from "./subscription.js";
