// Checked by `tsc`, never run: the declarations are those of the code, and read well in a program.

import * as declared from "../index.js";
import * as made from "../src/index.js";

const same: Pick<typeof declared, Exclude<keyof typeof declared, "Subscription">> = made;
export const names: Record<keyof typeof made, unknown> = { ...same, Subscription: made.Subscription };

export async function use(gateway: declared.Gateway): Promise<string[]> {
  const result = await gateway.query("SELECT ?s { ?s ?p ?o }", { timeoutSeconds: 5 });
  // @ts-expect-error: an answer of ASK has no bindings
  void result.bindings;
  const found: string[] = result.type === "bindings" ? result.bindings.map((row) => row.s?.value ?? "") : [];
  const subscription = await gateway.subscribe("SELECT ?s { ?s ?p ?o }", { since: "beginning" });
  try {
    for await (const { added, removed, lost, token } of subscription) {
      for (const { s } of [...added, ...removed]) if (s?.termType === "Literal") found.push(s.datatype.value);
      if (lost > 0) return [token];
    }
  } catch (error) {
    if (error instanceof declared.SubscriptionGone && !error.transient) found.push(error.code);
  }
  // @ts-expect-error: there is no such option
  await gateway.publish("", { idempotency: "key" });
  return found;
}
