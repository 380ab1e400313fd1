import java.util.ArrayList;
import java.util.List;
import org.apache.jena.atlas.web.HttpException;
import org.apache.jena.query.*;
import org.apache.jena.rdf.model.*;
import org.apache.jena.rdfconnection.*;
import org.apache.jena.riot.WebContent;
import org.apache.jena.sparql.engine.http.QueryExceptionHTTP;
import org.apache.jena.sparql.exec.http.QueryExecutionHTTP;
import org.apache.jena.sparql.exec.http.QuerySendMode;

/** Uses a gateway by Jena's RDFConnection; writes one line for each step: its name and its result. */
public class JenaConnection {
    static void say(String step, Object result) {
        System.out.println(step + "\t" + result);
    }

    static String failure(Runnable step) {
        try {
            step.run();
            return "no failure";
        } catch (HttpException error) {
            return "status " + error.getStatusCode();
        } catch (QueryExceptionHTTP error) {
            return "status " + error.getStatusCode();
        }
    }

    static List<String> column(RDFConnection connection, String query) {
        List<String> found = new ArrayList<>();
        connection.querySelect(query, row -> found.add(row.get("o").toString()));
        return found;
    }

    static Model model(String text) {
        Model found = ModelFactory.createDefaultModel();
        found.read(new java.io.StringReader(text), null, "TTL");
        return found;
    }

    public static void main(String[] words) {
        String base = words[0], ns = words[1], name = ns + "g";
        RDFConnection connection = RDFConnectionRemote.newBuilder()
            .destination(base).queryEndpoint("sparql").updateEndpoint("sparql").gspEndpoint("graphs").build();
        String values = "SELECT ?o { <" + ns + "a> <" + ns + "p> ?o } ORDER BY ?o";

        connection.update("INSERT DATA { <" + ns + "a> <" + ns + "p> 1, 2 ; <" + ns + "q> <" + ns + "b> }");
        say("insert", column(connection, values).size());
        connection.update("DELETE { ?s ?p ?o } INSERT { ?s ?p 9 } WHERE { ?s ?p ?o FILTER(?o = 2) ?s <" + ns + "p> 2 }");
        say("replace", connection.queryAsk("ASK { <" + ns + "a> <" + ns + "p> 9 }")
            && !connection.queryAsk("ASK { <" + ns + "a> <" + ns + "p> 2 }"));
        say("construct", connection.queryConstruct(
            "CONSTRUCT { ?s <" + ns + "r> ?o } WHERE { ?s <" + ns + "p> ?o FILTER(?s = <" + ns + "a>) }").size());
        say("describe", connection.queryDescribe("DESCRIBE <" + ns + "a>").size());
        for (QuerySendMode mode : QuerySendMode.values()) {
            try (QueryExecutionHTTP execution = QueryExecutionHTTP.create().endpoint(base + "/sparql")
                    .queryString(values).sendMode(mode).build()) {
                say("mode " + mode, ResultSetFormatter.toList(execution.execSelect()).size());
            }
        }
        for (String kind : List.of(WebContent.contentTypeResultsJSON, WebContent.contentTypeResultsXML,
                WebContent.contentTypeTextCSV, WebContent.contentTypeTextTSV)) {
            try (QueryExecutionHTTP execution = QueryExecutionHTTP.create().endpoint(base + "/sparql")
                    .queryString(values).acceptHeader(kind).build()) {
                say("format " + kind, ResultSetFormatter.toList(execution.execSelect()).size());
            }
        }

        connection.put(name, model("<" + ns + "s> <" + ns + "t> 'one'@en, 2.5 ."));
        say("put", connection.fetch(name).size());
        connection.load(name, model("<" + ns + "s> <" + ns + "t> [ <" + ns + "u> true ] ."));
        say("load", connection.fetch(name).size());
        say("isomorphic", connection.fetch(name).isIsomorphicWith(
            model("<" + ns + "s> <" + ns + "t> 'one'@en, 2.5, [ <" + ns + "u> true ] .")));
        say("graph", column(connection, "SELECT ?o { GRAPH <" + name + "> { ?s <" + ns + "t> ?o } }").size());
        connection.put(name, model("<" + ns + "s> <" + ns + "t> 3 ."));
        say("put again", connection.fetch(name).size());
        connection.delete(name);
        say("delete", failure(() -> connection.fetch(name)));
        say("delete again", failure(() -> connection.delete(name)));
        connection.load(model("<" + ns + "d> <" + ns + "t> 4 ."));
        say("load default", connection.fetch().contains(
            ResourceFactory.createResource(ns + "d"), ResourceFactory.createProperty(ns + "t")));

        Dataset dataset = DatasetFactory.create();
        dataset.getDefaultModel().add(model("<" + ns + "x> <" + ns + "y> 1 ."));
        dataset.addNamedModel(ns + "h", model("<" + ns + "x> <" + ns + "y> 2 ."));
        say("load dataset", failure(() -> connection.loadDataset(dataset)));
        say("fetch dataset", failure(() -> connection.fetchDataset()));

        say("malformed query", failure(() -> {
            try (QueryExecutionHTTP execution = QueryExecutionHTTP.create().endpoint(base + "/sparql")
                    .queryString("SELECT nothing").build()) {
                execution.execSelect();
            }
        }));
        say("refused update", failure(() -> connection.update("LOAD <http://127.0.0.1:9/nothing>")));
        connection.close();
    }
}
