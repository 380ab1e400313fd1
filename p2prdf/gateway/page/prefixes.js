// Prefixes that the editor completes. They are names: nothing is loaded from these addresses.

export const PREFIXES = new Map([
  ["dcat:", "http://www.w3.org/ns/dcat#"],
  ["dcterms:", "http://purl.org/dc/terms/"],
  ["foaf:", "http://xmlns.com/foaf/0.1/"],
  ["geo:", "http://www.w3.org/2003/01/geo/wgs84_pos#"],
  ["geosparql:", "http://www.opengis.net/ont/geosparql#"],
  ["owl:", "http://www.w3.org/2002/07/owl#"],
  ["prov:", "http://www.w3.org/ns/prov#"],
  ["qudt:", "http://qudt.org/schema/qudt/"],
  ["rdf:", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"],
  ["rdfs:", "http://www.w3.org/2000/01/rdf-schema#"],
  ["saref:", "https://saref.etsi.org/core/"],
  ["schema:", "https://schema.org/"],
  ["skos:", "http://www.w3.org/2004/02/skos/core#"],
  ["sosa:", "http://www.w3.org/ns/sosa/"],
  ["ssn:", "http://www.w3.org/ns/ssn/"],
  ["time:", "http://www.w3.org/2006/time#"],
  ["void:", "http://rdfs.org/ns/void#"],
  ["wd:", "http://www.wikidata.org/entity/"],
  ["wdt:", "http://www.wikidata.org/prop/direct/"],
  ["xsd:", "http://www.w3.org/2001/XMLSchema#"],
]);
