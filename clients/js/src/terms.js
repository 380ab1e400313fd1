// RDF terms with the properties of the RDF/JS data model, made from SPARQL 1.1 Query Results JSON.

/** @typedef {import("../index.d.ts").Term} Term */

const XSD_STRING = "http://www.w3.org/2001/XMLSchema#string";
const RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";

class NamedNode {
  /** @type {"NamedNode"} */
  termType = "NamedNode";

  /** @param {string} value */
  constructor(value) {
    this.value = value;
  }

  /** @param {any} other */
  equals(other) {
    return other?.termType === this.termType && other.value === this.value;
  }
}

class BlankNode {
  /** @type {"BlankNode"} */
  termType = "BlankNode";

  /** @param {string} value */
  constructor(value) {
    this.value = value;
  }

  /** @param {any} other */
  equals(other) {
    return other?.termType === this.termType && other.value === this.value;
  }
}

class Literal {
  /** @type {"Literal"} */
  termType = "Literal";

  /**
   * @param {string} value
   * @param {string} language
   * @param {"ltr" | "rtl" | ""} direction
   * @param {string | undefined} datatype
   */
  constructor(value, language, direction, datatype) {
    this.value = value;
    this.language = language;
    this.direction = direction;
    const tagged = direction ? `${RDF}dirLangString` : language ? `${RDF}langString` : undefined;
    this.datatype = new NamedNode(tagged ?? datatype ?? XSD_STRING);
  }

  /** @param {any} other */
  equals(other) {
    return other?.termType === this.termType && other.value === this.value && other.language === this.language
      && (other.direction ?? "") === this.direction && this.datatype.equals(other.datatype);
  }
}

class DefaultGraph {
  /** @type {"DefaultGraph"} */
  termType = "DefaultGraph";
  /** @type {""} */
  value = "";

  /** @param {any} other */
  equals(other) {
    return other?.termType === this.termType;
  }
}

class Quad {
  /** @type {"Quad"} */
  termType = "Quad";
  /** @type {""} */
  value = "";
  graph = new DefaultGraph();

  /**
   * @param {Term} subject
   * @param {Term} predicate
   * @param {Term} object
   */
  constructor(subject, predicate, object) {
    this.subject = subject;
    this.predicate = predicate;
    this.object = object;
  }

  /** @param {any} other */
  equals(other) {
    return other?.termType === this.termType && this.subject.equals(other.subject)
      && this.predicate.equals(other.predicate) && this.object.equals(other.object) && this.graph.equals(other.graph);
  }
}

/**
 * Return the term of a value in SPARQL results. Throws TypeError for a type that the format does not have.
 * @param {any} told
 * @returns {Term}
 */
export function termOf(told) {
  switch (told.type) {
    case "uri":
      return new NamedNode(told.value);
    case "bnode":
      return new BlankNode(told.value);
    case "literal":
    case "typed-literal":
      return new Literal(told.value, told["xml:lang"] ?? "", told["its:dir"] ?? "", told.datatype);
    case "triple":
      return new Quad(termOf(told.value.subject), termOf(told.value.predicate), termOf(told.value.object));
    default:
      throw new TypeError(`a term of unknown type ${JSON.stringify(told.type)} in a result`);
  }
}

/**
 * Return the solutions of a result, each an object without prototype: variable names may be any.
 * @param {{ results: { bindings: Record<string, any>[] } }} told
 * @returns {import("../index.d.ts").Bindings[]}
 */
export function bindingsOf(told) {
  return told.results.bindings.map((row) => {
    const bindings = Object.create(null);
    for (const [name, value] of Object.entries(row)) bindings[name] = termOf(value);
    return bindings;
  });
}
